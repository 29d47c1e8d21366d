import type { Context, MiddlewareHandler } from "hono";
import { forbidden } from "../common/errors.ts";
import type { GatewayEnv } from "./gateway-env.ts";

const METHODS = "GET, POST, PUT, PATCH, DELETE";
/** What the LangGraph SDKs and people who report a problem read; `langgraph-api` shows the first two. */
const EXPOSED = "content-location, x-pagination-total, location, retry-after, x-request-id";
const MAX_AGE_S = 600;

/**
 * Lets pages of other origins call a door, if they are on the list (Fetch standard, CORS protocol).
 *
 * Unlike `langgraph-api`, which lets every origin in unless told otherwise, an empty list lets none
 * in: on a laptop the dev token is known to all, and any page that someone opens could use it.
 * Cookies play no part: these doors take none.
 *
 * @param allowed Origins as browsers send them, e.g. `https://studio.example`.
 */
export function crossOrigin(allowed: readonly string[]): MiddlewareHandler<GatewayEnv> {
  const origins = new Set(allowed);
  return async (c, next) => {
    const origin = c.req.header("origin");
    if (origin === undefined) return next();
    const preflight =
      c.req.method === "OPTIONS" && c.req.header("access-control-request-method") !== undefined;
    if (!origins.has(origin)) {
      if (!preflight) return next();
      throw forbidden(
        `Pages of ${origin} may not call this platform. Whoever runs it can let them: platform:corsOrigins of the stack, CORS_ORIGINS of the gateway.`,
      );
    }
    const headers = { "access-control-allow-origin": origin, vary: "Origin" };
    if (preflight) return c.body(null, 204, { ...headers, ...permissions(c) });
    c.set("crossOriginHeaders", { ...headers, "access-control-expose-headers": EXPOSED });
    await next();
  };
}

/** What the page asked to be allowed; its origin is trusted with every header. */
function permissions(c: Context): Record<string, string> {
  const asked = c.req.header("access-control-request-headers");
  const isPrivate = c.req.header("access-control-request-private-network") === "true";
  return {
    "access-control-allow-methods": METHODS,
    ...(asked !== undefined && { "access-control-allow-headers": asked }),
    ...(isPrivate && { "access-control-allow-private-network": "true" }),
    "access-control-max-age": String(MAX_AGE_S),
  };
}
