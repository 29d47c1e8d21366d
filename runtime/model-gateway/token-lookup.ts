import type { Pool } from "pg";
import { unavailable } from "../common/errors.ts";
import type { ConsumerToken } from "./consumer-tokens.ts";

/** Reads the tokens of these hashes that are there and not disabled, by their hash. */
export type SelectTokens = (hashes: readonly string[]) => Promise<Map<string, ConsumerToken>>;

/** Asks the database about tokens: one statement at a time, for all that came meanwhile. */
export interface TokenLookup {
  /** @throws HttpError 503 where too many wait already. */
  find(hash: string): Promise<ConsumerToken | undefined>;
}

type Waiting = Map<string, PromiseWithResolvers<ConsumerToken | undefined>>;

/**
 * However many invented tokens come, the database has one statement of ours at a time, and memory
 * holds no more than two batches.
 *
 * @param capacity How many different tokens wait for the next statement.
 */
export function createTokenLookup(select: SelectTokens, capacity: number): TokenLookup {
  let waiting: Waiting = new Map();
  let asked: Waiting = new Map();
  let busy = false;

  async function askAll(): Promise<void> {
    busy = true;
    while (waiting.size > 0) {
      asked = waiting;
      waiting = new Map();
      try {
        const found = await select([...asked.keys()]);
        for (const [hash, { resolve }] of asked) resolve(found.get(hash));
      } catch (error) {
        for (const { reject } of asked.values()) reject(error);
      }
      asked = new Map();
    }
    busy = false;
  }

  return {
    async find(hash) {
      const same = asked.get(hash) ?? waiting.get(hash);
      if (same !== undefined) return same.promise;
      if (waiting.size >= capacity) {
        throw unavailable("Too many unknown tokens are being checked. Try again shortly.");
      }
      const mine = Promise.withResolvers<ConsumerToken | undefined>();
      waiting.set(hash, mine);
      if (!busy) void askAll();
      return mine.promise;
    },
  };
}

const SELECT = `
  SELECT token_hash, tenant, agent FROM consumer_token
  WHERE token_hash = ANY($1::text[]) AND disabled_at IS NULL`;

export function selectTokens(pool: Pool): SelectTokens {
  return async (hashes) => {
    const { rows } = await pool.query<ConsumerToken & { token_hash: string }>({
      name: "find-consumer-tokens",
      text: SELECT,
      values: [hashes],
    });
    return new Map(rows.map(({ token_hash, tenant, agent }) => [token_hash, { tenant, agent }]));
  };
}
