import type { Pool } from "pg";
import { hashToken } from "../common/identity.ts";
import { overConnectionLoss } from "../common/postgres.ts";

/** What a consumer token stands for. */
export interface ConsumerToken {
  tenant: string;
  /** The graph id that it was issued for; null: any agent. */
  agent: string | null;
}

/** Looks consumer tokens up. */
export interface ConsumerTokens {
  /** @returns undefined for an unknown and for a disabled token. */
  find(token: string): Promise<ConsumerToken | undefined>;
}

const TTL_MS = 10_000;
/** Shorter for what was not found, so that a new token works at once. */
const UNKNOWN_TTL_MS = 1_000;
const CACHE_LIMIT = 10_000;
const PATIENCE_MS = 10_000;
const SELECT =
  "SELECT tenant, agent FROM consumer_token WHERE token_hash = $1 AND disabled_at IS NULL";

/**
 * Tokens are compared by their hash, so nothing can be learnt from how long a look-up takes.
 *
 * @param ttlMs How long a token that was disabled may go on working.
 */
export function createConsumerTokens(pool: Pool, ttlMs = TTL_MS): ConsumerTokens {
  const cache = new Map<string, { found: Promise<ConsumerToken | undefined>; until: number }>();

  async function select(hash: string): Promise<ConsumerToken | undefined> {
    const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
      pool.query<ConsumerToken>({ name: "find-consumer-token", text: SELECT, values: [hash] }),
    );
    return rows[0];
  }

  return {
    find(token) {
      const hash = hashToken(token);
      const cached = cache.get(hash);
      if (cached !== undefined && cached.until > Date.now()) return cached.found;
      cache.delete(hash);
      if (cache.size >= CACHE_LIMIT) {
        const [oldest] = cache.keys();
        if (oldest !== undefined) cache.delete(oldest);
      }
      const entry = { found: select(hash), until: Date.now() + ttlMs };
      cache.set(hash, entry);
      entry.found.then(
        (found) => {
          if (found === undefined) entry.until = Date.now() + Math.min(ttlMs, UNKNOWN_TTL_MS);
        },
        // The caller gets the failure; the next call asks again.
        () => cache.delete(hash),
      );
      return entry.found;
    },
  };
}

/** Enters the fixed token of a local installation. */
export async function enterDevToken(pool: Pool, token: string, tenant: string): Promise<void> {
  await overConnectionLoss(PATIENCE_MS, () =>
    pool.query({
      text: `INSERT INTO consumer_token (token_hash, tenant) VALUES ($1, $2)
        ON CONFLICT (token_hash) DO UPDATE SET tenant = EXCLUDED.tenant, disabled_at = NULL`,
      values: [hashToken(token), tenant],
    }),
  );
}
