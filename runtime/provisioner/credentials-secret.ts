import { createHash } from "node:crypto";
import { z } from "zod";
import type { AgentRequest } from "./agent-request.ts";
import type { AgentSurroundings } from "./configuration.ts";
import type { Credentials } from "./credentials.ts";
import { GRAPH_ID_LABEL, secretName } from "./names.ts";

const CHECKSUM_LENGTH = 16;

const base64 = z.string().transform((text) => Buffer.from(text, "base64").toString("utf8"));
const ownerReference = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  name: z.string(),
  uid: z.string(),
});

/** As much of a Secret as the provisioner reads. */
export const secret = z.object({
  metadata: z.object({
    resourceVersion: z.string(),
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
    ownerReferences: z.array(ownerReference).default([]),
  }),
  data: z.record(z.string(), base64).default({}),
});

export type Secret = z.output<typeof secret>;

/** The environment of an agent: what its worker is told, its own credentials among it. */
export function secretData(
  agent: AgentRequest,
  login: string,
  credentials: Credentials,
  surroundings: AgentSurroundings,
): Record<string, string> {
  return {
    ...surroundings.variables,
    DATABASE_URL: urlFor(surroundings.databaseUrl, login, credentials.databasePassword),
    DATABASE_SCHEMA: agent.name,
    REDIS_URL: urlFor(surroundings.redisUrl, agent.name, credentials.redisPassword),
    REDIS_PREFIX: agent.redisPrefix,
    OPENAI_API_KEY: credentials.consumerToken,
    ...tracing(surroundings.otlpEndpoint, credentials.consumerToken),
  };
}

/** The credentials that stand in a Secret; undefined where somebody changed their shape. */
export function credentialsIn({ data }: Secret): Credentials | undefined {
  const databasePassword = passwordOf(data.DATABASE_URL);
  const redisPassword = passwordOf(data.REDIS_URL);
  const consumerToken = data.OPENAI_API_KEY;
  if (
    databasePassword === undefined ||
    redisPassword === undefined ||
    consumerToken === undefined
  ) {
    return undefined;
  }
  return { databasePassword, redisPassword, consumerToken };
}

/** The Secret's object for the API; it goes when its Deployment goes. */
export function secretManifest(
  agent: AgentRequest,
  data: Record<string, string>,
  before: Secret | undefined,
): object {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name: secretName(agent.release),
      namespace: agent.namespace,
      ...(before !== undefined && {
        resourceVersion: before.metadata.resourceVersion,
        annotations: before.metadata.annotations,
      }),
      labels: { ...before?.metadata.labels, ...labelsOf(agent) },
      ownerReferences: [ownerOf(agent)],
    },
    type: "Opaque",
    data: Object.fromEntries(
      Object.entries(data).map(([name, value]) => [name, Buffer.from(value).toString("base64")]),
    ),
  };
}

/** True where the Secret holds just these data. */
export function holds(found: Secret | undefined, data: Record<string, string>): boolean {
  return found !== undefined && checksumOf(found.data) === checksumOf(data);
}

/** True where the Secret is marked as this agent's. */
export function isMarked({ metadata }: Secret, agent: AgentRequest): boolean {
  const [owner, ...others] = metadata.ownerReferences;
  return (
    Object.entries(labelsOf(agent)).every(([name, value]) => metadata.labels[name] === value) &&
    owner?.uid === agent.uid &&
    others.length === 0
  );
}

/** True where the provisioner may overwrite the Secret: it made it, for this Deployment's name. */
export function isOurs({ metadata }: Secret, agent: AgentRequest): boolean {
  const owned = metadata.ownerReferences.some(
    ({ kind, name }) => kind === "Deployment" && name === agent.release,
  );
  return owned || metadata.labels[GRAPH_ID_LABEL] !== undefined;
}

/** Tells two sets of data apart. They hold random secrets, so it may be shown. */
export function checksumOf(data: Record<string, string>): string {
  const sorted = Object.entries(data).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify(sorted))
    .digest("hex")
    .slice(0, CHECKSUM_LENGTH);
}

function labelsOf(agent: AgentRequest): Record<string, string> {
  return {
    [GRAPH_ID_LABEL]: agent.graphId,
    "app.kubernetes.io/part-of": "platform",
    "app.kubernetes.io/managed-by": "platform-provisioner",
  };
}

function ownerOf(agent: AgentRequest): z.output<typeof ownerReference> {
  return { apiVersion: "apps/v1", kind: "Deployment", name: agent.release, uid: agent.uid };
}

/** The model gateway takes an agent's spans with the agent's token: none has a key to all traces. */
function tracing(endpoint: string | undefined, token: string): Record<string, string> {
  if (endpoint === undefined) return {};
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=${encodeURIComponent(`Bearer ${token}`)}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
  };
}

function urlFor(base: URL, username: string, password: string): string {
  const url = new URL(base);
  url.username = username;
  url.password = password;
  return url.href;
}

function passwordOf(text: string | undefined): string | undefined {
  const url = text === undefined ? null : URL.parse(text);
  return url?.password || undefined;
}
