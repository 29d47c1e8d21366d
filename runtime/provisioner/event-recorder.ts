import { randomBytes } from "node:crypto";
import type { Logger } from "../common/logging.ts";
import type { Deployment } from "./agent-request.ts";
import { keyOf } from "./agent-request.ts";
import { describe } from "./failure.ts";
import type { AgentCluster } from "./kubernetes.ts";

const COMPONENT = "platform-provisioner";
/** Kubernetes takes no more. */
const MESSAGE_LENGTH = 1_024;
/** How long the same failure is not told again. */
const SILENCE_MS = 300_000;

/** What was done or failed, for `kubectl describe deployment`. */
export interface EventRecorder {
  done(deployment: Deployment, reason: string, message: string): Promise<void>;
  failed(deployment: Deployment, message: string): Promise<void>;
}

/** An event that can't be written is logged: it must not stop what it tells of. */
export function createEventRecorder(
  cluster: Pick<AgentCluster, "createEvent">,
  logger: Logger,
): EventRecorder {
  const told = new Map<string, { message: string; until: number }>();

  async function record(at: Deployment, type: string, reason: string, message: string) {
    const { namespace, name, uid } = at.metadata;
    const now = new Date().toISOString();
    try {
      await cluster.createEvent(namespace, {
        apiVersion: "v1",
        kind: "Event",
        metadata: { name: `${name}.${randomBytes(8).toString("hex")}`, namespace },
        involvedObject: { apiVersion: "apps/v1", kind: "Deployment", namespace, name, uid },
        type,
        reason,
        message: message.slice(0, MESSAGE_LENGTH),
        source: { component: COMPONENT },
        reportingComponent: COMPONENT,
        reportingInstance: COMPONENT,
        firstTimestamp: now,
        lastTimestamp: now,
        count: 1,
      });
    } catch (error) {
      logger.warn({ agent: keyOf(at), reason, error: describe(error) }, "an event was not written");
    }
  }

  return {
    async done(deployment, reason, message) {
      const agent = keyOf(deployment);
      told.delete(agent);
      logger.info({ agent, reason }, message);
      await record(deployment, "Normal", reason, message);
    },
    async failed(deployment, message) {
      const agent = keyOf(deployment);
      const last = told.get(agent);
      if (last?.message === message && last.until > Date.now()) return;
      told.set(agent, { message, until: Date.now() + SILENCE_MS });
      logger.warn({ agent }, message);
      await record(deployment, "Warning", "CredentialsFailed", message);
    },
  };
}
