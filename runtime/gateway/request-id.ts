import { randomUUID } from "node:crypto";
import type { Context, MiddlewareHandler } from "hono";
import type { GatewayEnv } from "./gateway-env.ts";

export const REQUEST_ID_HEADER = "x-request-id";
/** What may go into logs and on to other programs as it is. */
const SANE = /^[A-Za-z0-9._-]{1,128}$/;

/** Gives each call its id: the client's own if it is a sane one, so that logs can be matched. */
export function requestId(): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const sent = c.req.header(REQUEST_ID_HEADER);
    c.set("requestId", sent !== undefined && SANE.test(sent) ? sent : randomUUID());
    await next();
  };
}

/** Puts the id on an answer of our own. A forwarded answer has got it already. */
export function withRequestId(c: Context<GatewayEnv>, response: Response): Response {
  const id = c.get("requestId");
  if (id !== undefined) response.headers.set(REQUEST_ID_HEADER, id);
  return response;
}
