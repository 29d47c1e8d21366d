import type { Pool } from "pg";
import { hashToken } from "../common/identity.ts";
import type { Logger } from "../common/logging.ts";
import { isConnectionLoss, overConnectionLoss } from "../common/postgres.ts";
import { createTokenLookup, type SelectTokens } from "./token-lookup.ts";

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

export interface ConsumerTokensOptions {
  select: SelectTokens;
  logger: Logger;
  /** How long a token that was disabled may go on working, in ms, while the database answers. */
  ttlMs?: number;
  /** How long a good token goes on while the database does not answer, in ms. */
  staleMs?: number;
  /** How long a call with a good token waits for the database to say so again, in ms. */
  lateMs?: number;
  /** How long a token that isn't known waits for the database to come back, in ms. */
  patienceMs?: number;
  /** The clock, in ms. */
  now?: () => number;
}

/** A token that the database has called good. */
interface GoodToken {
  token: ConsumerToken;
  provenAt: number;
  freshUntil: number;
  /** The question whether it still is, and its answer as a call gets it. */
  renewal?: Promise<ConsumerToken | undefined> | undefined;
}

const RETRY_MS = 1_000;
const GOOD_LIMIT = 10_000;
const STRANGERS_LIMIT = 1_000;
const PATIENCE_MS = 10_000;

/**
 * Tokens are compared by their hash, so nothing can be learnt from how long a look-up takes.
 *
 * Only good tokens are kept, so invented ones push none out. While the connection to the database
 * is lost they go on for {@link ConsumerTokensOptions.staleMs}; its first answer counts again.
 */
export function createConsumerTokens(options: ConsumerTokensOptions): ConsumerTokens {
  const { select, logger, now = Date.now } = options;
  const { ttlMs = 10_000, staleMs = 300_000, lateMs = 2_000, patienceMs = PATIENCE_MS } = options;
  // The ones proven longest ago come first.
  const known = new Map<string, GoodToken>();
  const regulars = createTokenLookup(select, GOOD_LIMIT);
  const strangers = createTokenLookup(
    (hashes) => overConnectionLoss(patienceMs, () => select(hashes)),
    STRANGERS_LIMIT,
  );
  let away = false;

  /** Takes what the database says of a token. */
  function heed(hash: string, token: ConsumerToken | undefined): ConsumerToken | undefined {
    away = false;
    known.delete(hash);
    if (token === undefined) return undefined;
    if (known.size >= GOOD_LIMIT) {
      const [oldest] = known.keys();
      if (oldest !== undefined) known.delete(oldest);
    }
    known.set(hash, { token, provenAt: now(), freshUntil: now() + ttlMs });
    return token;
  }

  /** Goes on with what was known, since the database says nothing. */
  function goOn(good: GoodToken, reason: string): ConsumerToken {
    if (!away) logger.warn({ reason, for_ms: staleMs }, "known consumer tokens go on unchecked");
    away = true;
    good.freshUntil = now() + RETRY_MS;
    return good.token;
  }

  function renew(hash: string, good: GoodToken): Promise<ConsumerToken | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<ConsumerToken | undefined>();
    // The question stays open: what is answered late counts for the calls after it.
    const late = setTimeout(() => resolve(goOn(good, "no answer yet")), lateMs);
    const settled = () => {
      clearTimeout(late);
      good.renewal = undefined;
    };
    regulars.find(hash).then(
      (found) => {
        settled();
        resolve(heed(hash, found));
      },
      (error: unknown) => {
        settled();
        if (isConnectionLoss(error)) resolve(goOn(good, String(error)));
        else reject(error);
      },
    );
    return promise;
  }

  return {
    async find(token) {
      const hash = hashToken(token);
      const good = known.get(hash);
      if (good === undefined || good.provenAt + staleMs <= now()) {
        return heed(hash, await strangers.find(hash));
      }
      if (good.freshUntil > now()) return good.token;
      good.renewal ??= renew(hash, good);
      return good.renewal;
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
