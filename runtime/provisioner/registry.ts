import pg, { type Pool } from "pg";
import { inTransaction } from "../common/postgres.ts";
import type { AgentRequest } from "./agent-request.ts";
import {
  type AgentId,
  type AgentRow,
  CLAIM,
  GENERATIONS,
  type Generation,
  type GenerationRow,
  generationOf,
  INSERT_CREDENTIAL,
  type Issue,
  inMs,
  type KnownAgent,
  knownAgent,
  SUPERSEDE,
} from "./registry-records.ts";

const UNIQUE_VIOLATION = "23505";

/**
 * The provisioner's memory, in its own schema: who holds what, and hashes of what was issued.
 * Times are the database's.
 */
export class Registry {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /**
   * Writes down what a Deployment asks for, and so takes its graph id and prefix.
   *
   * @returns the other agent that holds one of them, where there is one.
   */
  async claim(agent: AgentRequest): Promise<KnownAgent | { holder: AgentId }> {
    try {
      const { rows } = await this.#pool.query<AgentRow>(CLAIM, [
        agent.namespace,
        agent.release,
        agent.name,
        agent.graphId,
        agent.tenant,
        agent.redisPrefix,
        agent.uid,
        agent.graceMs,
      ]);
      return knownAgent(only(rows));
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || error.code !== UNIQUE_VIOLATION) throw error;
      const holder = await this.#holder(agent);
      // Whoever held it let go in between.
      return holder === undefined ? this.claim(agent) : { holder };
    }
  }

  /** The agents that hold credentials. */
  async agents(): Promise<KnownAgent[]> {
    const { rows } = await this.#pool.query<AgentRow>(
      "SELECT * FROM provisioner.agent WHERE removed_at IS NULL ORDER BY created_at",
    );
    return rows.map(knownAgent);
  }

  async find(id: AgentId): Promise<KnownAgent | undefined> {
    const { rows } = await this.#pool.query<AgentRow>(
      "SELECT * FROM provisioner.agent WHERE namespace = $1 AND release = $2 AND removed_at IS NULL",
      [id.namespace, id.release],
    );
    return rows.map(knownAgent)[0];
  }

  /** What is not revoked yet, oldest first. */
  async generations(id: AgentId): Promise<Generation[]> {
    const { rows } = await this.#pool.query<GenerationRow>(GENERATIONS, [id.namespace, id.release]);
    return rows.map(generationOf);
  }

  /**
   * Makes new credentials the current ones.
   *
   * @param loginOf The name of the login with a number.
   * @returns all generations that are now valid, and those that are to be revoked.
   */
  async issue(
    id: AgentId,
    issue: Issue,
    loginOf: (generation: number) => string,
  ): Promise<Generation[]> {
    return inTransaction(this.#pool, async (client) => {
      const { rows } = await client.query<{ generation: number }>(
        `UPDATE provisioner.agent SET generation = generation + 1 WHERE namespace = $1 AND release = $2
         RETURNING generation`,
        [id.namespace, id.release],
      );
      const { generation } = only(rows);
      await client.query(SUPERSEDE, [id.namespace, id.release, issue.overlapMs, generation]);
      await client.query(INSERT_CREDENTIAL, [
        id.namespace,
        id.release,
        generation,
        loginOf(generation),
        issue.verifier,
        issue.databaseHash,
        issue.redisHash,
        issue.tokenHash,
        issue.deploymentUid,
        issue.rotation,
      ]);
      const generations = await client.query<GenerationRow>(GENERATIONS, [
        id.namespace,
        id.release,
      ]);
      return generations.rows.map(generationOf);
    });
  }

  /** Notes that this generation is about to stand in the Secret, and what is to be rolled for it. */
  async publish(id: AgentId, generation: number, rollout: string | null): Promise<void> {
    await inTransaction(this.#pool, async (client) => {
      await client.query(
        `UPDATE provisioner.credential SET published_at = coalesce(published_at, now())
         WHERE namespace = $1 AND release = $2 AND generation = $3`,
        [id.namespace, id.release, generation],
      );
      await client.query(
        "UPDATE provisioner.agent SET rollout = $3 WHERE namespace = $1 AND release = $2",
        [id.namespace, id.release, rollout],
      );
    });
  }

  /** Notes that all pods have the current credentials; the others' last pods may still be ending. */
  async rolledOut(id: AgentId, graceMs: number): Promise<void> {
    await inTransaction(this.#pool, async (client) => {
      await client.query(
        "UPDATE provisioner.agent SET rollout = NULL WHERE namespace = $1 AND release = $2",
        [id.namespace, id.release],
      );
      await client.query(
        `UPDATE provisioner.credential SET revoke_at = least(revoke_at, ${inMs("$3")})
         WHERE namespace = $1 AND release = $2 AND revoke_at IS NOT NULL`,
        [id.namespace, id.release, graceMs],
      );
    });
  }

  /** Lets all of an agent's credentials end, once its pods had their time to finish. */
  async retire(id: AgentId, marginMs: number): Promise<Generation[]> {
    await this.#pool.query(
      `UPDATE provisioner.credential c
       SET revoke_at = least(coalesce(c.revoke_at, 'infinity'), ${inMs("(a.grace_ms + $3)")})
       FROM provisioner.agent a
       WHERE (a.namespace, a.release) = ($1, $2) AND (c.namespace, c.release) = ($1, $2)`,
      [id.namespace, id.release, marginMs],
    );
    return this.generations(id);
  }

  /** Forgets a generation that was revoked everywhere. */
  async revoked(id: AgentId, generation: number): Promise<void> {
    await this.#pool.query(
      "DELETE FROM provisioner.credential WHERE namespace = $1 AND release = $2 AND generation = $3",
      [id.namespace, id.release, generation],
    );
  }

  /** Lets go of an agent's graph id and prefix. */
  async removed(id: AgentId): Promise<void> {
    await this.#pool.query(
      "UPDATE provisioner.agent SET removed_at = now(), rollout = NULL WHERE namespace = $1 AND release = $2",
      [id.namespace, id.release],
    );
  }

  /** True where another agent used this prefix last. */
  async isSecondHand(id: AgentId, prefix: string): Promise<boolean> {
    const { rowCount } = await this.#pool.query(
      "SELECT FROM provisioner.redis_prefix WHERE prefix = $1 AND (namespace, release) <> ($2, $3)",
      [prefix, id.namespace, id.release],
    );
    return rowCount !== 0;
  }

  /** Notes who uses this prefix from now on. */
  async usesPrefix(id: AgentId, prefix: string): Promise<void> {
    await this.#pool.query(
      `INSERT INTO provisioner.redis_prefix AS used (prefix, namespace, release) VALUES ($1, $2, $3)
       ON CONFLICT (prefix) DO UPDATE SET namespace = excluded.namespace, release = excluded.release
       WHERE (used.namespace, used.release) <> (excluded.namespace, excluded.release)`,
      [prefix, id.namespace, id.release],
    );
  }

  async #holder(agent: AgentRequest): Promise<AgentId | undefined> {
    const { rows } = await this.#pool.query<AgentId>(
      `SELECT namespace, release FROM provisioner.agent
       WHERE removed_at IS NULL AND (graph_id = $1 OR redis_prefix = $2)
         AND (namespace, release) <> ($3, $4)
       ORDER BY graph_id = $1 DESC`,
      [agent.graphId, agent.redisPrefix, agent.namespace, agent.release],
    );
    return rows[0];
  }
}

function only<T>(rows: T[]): T {
  const [row] = rows;
  if (row === undefined) throw new Error("The registry answered no row where there has to be one.");
  return row;
}
