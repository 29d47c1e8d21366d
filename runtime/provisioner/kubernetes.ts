import type { z } from "zod";
import { type KubernetesClient, KubernetesError } from "../common/kubernetes/client.ts";
import { type Deployment, deployment } from "./agent-request.ts";
import { type Secret, secret } from "./credentials-secret.ts";
import { secretName } from "./names.ts";
import type { AgentId } from "./registry-records.ts";

const FIELD_MANAGER = "platform-provisioner";

/** What the provisioner does at the API server, beside watching. */
export interface AgentCluster {
  /** The Deployment as it is now; undefined where there is none. */
  deployment(id: AgentId): Promise<Deployment | undefined>;
  /** The agent's credentials; undefined where there are none. */
  secret(id: AgentId): Promise<Secret | undefined>;
  /** @param before The Secret that it takes the place of; a conflict if that has changed. */
  putSecret(id: AgentId, manifest: object, before: Secret | undefined): Promise<void>;
  /** Sets annotations of the pod template, which makes the Deployment roll. */
  annotatePods(id: AgentId, annotations: Record<string, string>): Promise<void>;
  createEvent(namespace: string, event: object): Promise<void>;
}

/** Where the agents' Deployments of a namespace are. */
export function deploymentsPath(namespace: string): string {
  return `/apis/apps/v1/namespaces/${namespace}/deployments`;
}

/** @param signal Ends what is under way when the program stops. */
export function createAgentCluster(client: KubernetesClient, signal: AbortSignal): AgentCluster {
  const secrets = (namespace: string) => `/api/v1/namespaces/${namespace}/secrets`;

  async function find<Schema extends z.ZodType>(
    path: string,
    schema: Schema,
  ): Promise<z.output<Schema> | undefined> {
    try {
      return schema.parse(await client.get(path, {}, signal));
    } catch (error) {
      if (error instanceof KubernetesError && error.status === 404) return undefined;
      throw error;
    }
  }

  return {
    deployment: ({ namespace, release }) =>
      find(`${deploymentsPath(namespace)}/${release}`, deployment),
    secret: ({ namespace, release }) =>
      find(`${secrets(namespace)}/${secretName(release)}`, secret),
    async putSecret({ namespace, release }, manifest, before) {
      const path = secrets(namespace);
      if (before === undefined) await client.create(path, manifest, signal);
      else await client.replace(`${path}/${secretName(release)}`, manifest, signal);
    },
    async annotatePods({ namespace, release }, annotations) {
      await client.mergePatch(
        `${deploymentsPath(namespace)}/${release}?fieldManager=${FIELD_MANAGER}`,
        { spec: { template: { metadata: { annotations } } } },
        signal,
      );
    },
    async createEvent(namespace, event) {
      await client.create(`/api/v1/namespaces/${namespace}/events`, event, signal);
    },
  };
}
