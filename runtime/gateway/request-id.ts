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

/** The headers that every answer of a door carries, by lower-case name. */
export function answerHeaders(c: Context<GatewayEnv>): Record<string, string> {
  const id = c.get("requestId");
  return { ...(id !== undefined && { [REQUEST_ID_HEADER]: id }), ...c.get("crossOriginHeaders") };
}

/** Puts them on an answer of our own. A forwarded answer has got them already. */
export function withAnswerHeaders(c: Context<GatewayEnv>, response: Response): Response {
  for (const [name, value] of Object.entries(answerHeaders(c))) response.headers.set(name, value);
  return response;
}
