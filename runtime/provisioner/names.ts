import { createHash } from "node:crypto";

/** What the provisioner reads from an agent's Deployment. */
export const GRAPH_ID_LABEL = "platform.dev/graph-id";
export const TENANT_ANNOTATION = "platform.dev/tenant";
export const REDIS_PREFIX_ANNOTATION = "platform.dev/redis-prefix";
export const CREDENTIALS_SECRET_ANNOTATION = "platform.dev/credentials-secret";
export const ROTATE_ANNOTATION = "platform.dev/rotate-credentials";

/** What it writes to the pod template, so that the Deployment rolls. */
export const CREDENTIALS_ANNOTATION = "platform.dev/credentials-checksum";

export const DEFAULT_TENANT = "default";
/** May connect to the database; every agent's logins are members. */
export const AGENTS_ROLE = "platform_agents";
/** The provisioner's own schema. */
export const SCHEMA = "provisioner";

const SLUG_LENGTH = 30;
const HASH_LENGTH = 16;

/** Names a Deployment among all namespaces: `namespace/release`. */
export function agentKey(namespace: string, release: string): string {
  return `${namespace}/${release}`;
}

/**
 * The name of an agent's database role, of its schema and of its Redis user: readable, and unique by
 * a hash of namespace and release. 53 bytes at most, so that a login's number fits in PostgreSQL's 63.
 */
export function agentName(namespace: string, release: string): string {
  const key = agentKey(namespace, release);
  const hash = createHash("sha256").update(key).digest("hex").slice(0, HASH_LENGTH);
  const slug = key.replace(/[^a-z0-9]+/g, "_").slice(0, SLUG_LENGTH);
  return `agent_${slug}_${hash}`;
}

/** The role that one generation of an agent's credentials logs in as. */
export function loginName(agent: string, generation: number): string {
  return `${agent}_${generation}`;
}

/** The Secret with an agent's credentials, in the agent's namespace. */
export function secretName(release: string): string {
  return `${release}-credentials`;
}

/** Where an agent's keys and channels lie unless its Deployment says otherwise. */
export function defaultRedisPrefix(graphId: string): string {
  return `aegra:${graphId}`;
}
