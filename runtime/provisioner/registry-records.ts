import type { CredentialHashes } from "./credentials.ts";

/** Names an agent: its Deployment, whether that is there or not. */
export interface AgentId {
  namespace: string;
  release: string;
}

/** What the platform remembers of an agent. */
export interface KnownAgent extends AgentId {
  name: string;
  graphId: string;
  redisPrefix: string;
  /** Annotation value that the pod template has to carry; null: there is nothing to roll. */
  rollout: string | null;
}

/** One generation of credentials that is not revoked yet. */
export interface Generation extends CredentialHashes {
  generation: number;
  login: string;
  verifier: string;
  deploymentUid: string;
  rotation: string | null;
  published: boolean;
  /** Time until it is to be revoked, in ms; null: it is the current one. */
  revokeInMs: number | null;
}

/** Credentials to be issued. */
export interface Issue extends CredentialHashes {
  verifier: string;
  deploymentUid: string;
  rotation: string | undefined;
  /** How long what was valid until now goes on being valid, in ms. */
  overlapMs: number;
}

/** Generations that are valid at a time; an older one has to go at once. */
const MAX_GENERATIONS = 3;

/** A time that lies a parameter's ms ahead. */
export const inMs = (parameter: string) => `now() + ${parameter} * interval '1 ms'`;

export const CLAIM = `
  INSERT INTO provisioner.agent
    (namespace, release, name, graph_id, tenant, redis_prefix, deployment_uid, grace_ms)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
  ON CONFLICT (namespace, release) DO UPDATE
  SET graph_id = excluded.graph_id, tenant = excluded.tenant, redis_prefix = excluded.redis_prefix,
      deployment_uid = excluded.deployment_uid, grace_ms = excluded.grace_ms, removed_at = NULL
  RETURNING *`;

/** Oldest first. */
export const GENERATIONS = `
  SELECT *, extract(epoch FROM revoke_at - now()) * 1000 AS revoke_in_ms
  FROM provisioner.credential WHERE namespace = $1 AND release = $2 ORDER BY generation`;

/** What never stood in a Secret is known to nobody, and too many are too many. */
export const SUPERSEDE = `
  UPDATE provisioner.credential
  SET revoke_at = CASE
    WHEN published_at IS NULL OR generation <= $4::int - ${MAX_GENERATIONS} THEN now()
    ELSE least(coalesce(revoke_at, 'infinity'), ${inMs("$3")}) END
  WHERE namespace = $1 AND release = $2`;

export const INSERT_CREDENTIAL = `
  INSERT INTO provisioner.credential
    (namespace, release, generation, login, database_verifier, database_hash, redis_hash,
     token_hash, deployment_uid, rotation)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`;

export interface AgentRow extends AgentId {
  name: string;
  graph_id: string;
  redis_prefix: string;
  rollout: string | null;
}

export interface GenerationRow {
  generation: number;
  login: string;
  database_verifier: string;
  database_hash: string;
  redis_hash: string;
  token_hash: string;
  deployment_uid: string;
  rotation: string | null;
  published_at: Date | null;
  revoke_in_ms: string | null;
}

export function knownAgent(row: AgentRow): KnownAgent {
  const { namespace, release, name, rollout } = row;
  return {
    namespace,
    release,
    name,
    rollout,
    graphId: row.graph_id,
    redisPrefix: row.redis_prefix,
  };
}

export function generationOf(row: GenerationRow): Generation {
  return {
    generation: row.generation,
    login: row.login,
    verifier: row.database_verifier,
    databaseHash: row.database_hash,
    redisHash: row.redis_hash,
    tokenHash: row.token_hash,
    deploymentUid: row.deployment_uid,
    rotation: row.rotation,
    published: row.published_at !== null,
    revokeInMs: row.revoke_in_ms === null ? null : Number(row.revoke_in_ms),
  };
}
