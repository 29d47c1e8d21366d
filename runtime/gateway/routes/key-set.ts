import { Hono } from "hono";
import type { JWK } from "jose";
import type { GatewayEnv } from "../gateway-env.ts";

/** Verifiers may go on with what they have for this long: less than a key is announced ahead. */
const MAX_AGE_S = 300;

/**
 * The platform's own key set (RFC 7517), so that others can check tokens that it minted. Public on
 * every host, as keys are.
 */
export function keySetRoutes(keys: readonly JWK[]): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  if (keys.length === 0) return app;
  const headers = {
    "content-type": "application/jwk-set+json",
    "cache-control": `public, max-age=${MAX_AGE_S}`,
  };
  const body = JSON.stringify({ keys });
  app.get("/.well-known/jwks.json", (c) => c.body(body, 200, headers));
  return app;
}
