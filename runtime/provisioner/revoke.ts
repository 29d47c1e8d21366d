import type { Logger } from "../common/logging.ts";
import type { ConsumerTokens } from "./consumer-token.ts";
import { step } from "./failure.ts";
import { agentKey } from "./names.ts";
import type { DatabaseRoles } from "./postgres-role.ts";
import type { RedisUsers } from "./redis-user.ts";
import type { Registry } from "./registry.ts";
import type { AgentId, Generation } from "./registry-records.ts";

export interface RevokeDeps {
  registry: Registry;
  database: DatabaseRoles;
  redis: RedisUsers;
  tokens: ConsumerTokens;
  /** How long a Deployment's pods may take to be asked to end, in ms. */
  marginMs: number;
  logger: Logger;
}

/**
 * Takes an agent's access away after its Deployment went: its login, Redis user and token. Its data
 * stay. Its pods have their grace period to finish what they do.
 *
 * @returns after how many ms there is something to do again.
 */
export async function withdraw(id: AgentId, deps: RevokeDeps): Promise<number | undefined> {
  const { registry, redis, logger } = deps;
  const agent = await registry.find(id);
  if (agent === undefined) return undefined;
  const generations = await registry.retire(id, deps.marginMs);
  await revokeDue(id, agent.name, generations, deps);
  const left = await registry.generations(id);
  if (left.length > 0) return untilNextRevocation(left);
  await step("remove the agent's Redis user", () => redis.remove(agent.name));
  await registry.removed(id);
  logger.info({ agent: agentKey(id.namespace, id.release) }, "access withdrawn; its data stay");
  return undefined;
}

/**
 * Revokes the generations whose time has come; one that can't be does not keep the others alive. Their Redis passwords go with the next `ensure` or
 * `remove` of the user.
 *
 * @returns how many there were.
 */
export async function revokeDue(
  id: AgentId,
  agent: string,
  generations: readonly Generation[],
  { registry, database, tokens }: RevokeDeps,
): Promise<number> {
  const due = generations.filter(({ revokeInMs }) => revokeInMs !== null && revokeInMs <= 0);
  const failures: unknown[] = [];
  for (const { generation, login, tokenHash } of due) {
    try {
      await step("disable a model token", () => tokens.disable(tokenHash));
      await step("revoke a database login", () => database.revoke(agent, login));
      await registry.revoked(id, generation);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return due.length;
}

/** The time until the next generation is to be revoked, in ms; undefined where none is. */
export function untilNextRevocation(generations: readonly Generation[]): number | undefined {
  const times = generations.flatMap(({ revokeInMs }) => (revokeInMs === null ? [] : [revokeInMs]));
  return times.length === 0 ? undefined : Math.max(0, Math.min(...times));
}
