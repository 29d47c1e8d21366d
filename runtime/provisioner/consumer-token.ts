import type { Pool } from "pg";

/** An agent's tokens at the model gateway, by their hashes. */
export interface ConsumerTokens {
  /** Lets these tokens in, for this tenant and agent. */
  ensure(hashes: readonly string[], tenant: string, graphId: string): Promise<void>;
  /** Keeps this token out; its row stays, for the usage that names it. */
  disable(hash: string): Promise<void>;
}

/** @param pool A member of `token_issuer`, which the model gateway lets at its table of tokens. */
export function createConsumerTokens(pool: Pool): ConsumerTokens {
  return {
    async ensure(hashes, tenant, graphId) {
      await pool.query(
        `INSERT INTO model_gateway.consumer_token AS token (token_hash, tenant, agent)
         SELECT hash, $2, $3 FROM unnest($1::text[]) AS hash
         ON CONFLICT (token_hash) DO UPDATE
         SET tenant = excluded.tenant, agent = excluded.agent, disabled_at = NULL
         WHERE (token.tenant, token.agent, token.disabled_at)
               IS DISTINCT FROM (excluded.tenant, excluded.agent, NULL::timestamptz)`,
        [hashes, tenant, graphId],
      );
    },
    async disable(hash) {
      await pool.query(
        `UPDATE model_gateway.consumer_token SET disabled_at = now()
         WHERE token_hash = $1 AND disabled_at IS NULL`,
        [hash],
      );
    },
  };
}
