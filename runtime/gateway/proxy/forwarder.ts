import { SpanStatusCode, type Tracer } from "@opentelemetry/api";
import type { Context, Hono } from "hono";
import { type Logger, requestLog } from "../../common/logging.ts";
import { traced, traceHeaders } from "../../common/telemetry.ts";
import { crossOrigin } from "../cross-origin.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { pathAndQuery } from "../hosts.ts";
import { answerHeaders, REQUEST_ID_HEADER, requestId } from "../request-id.ts";
import { alreadySent } from "./already-sent.ts";
import type { Destination } from "./headers.ts";
import type { CallProxy } from "./proxy.ts";

export interface ForwarderDeps {
  proxy: CallProxy;
  tracer: Tracer;
  logger: Logger;
}

/** What a door that the public calls needs. */
export interface DoorDeps extends ForwarderDeps {
  /** Origins of pages that may call. */
  corsOrigins: readonly string[];
}

/** What nginx logs, and so everyone knows, where the client left before its answer ended. */
const CLIENT_CLOSED_REQUEST = 499;

/**
 * Gives every call of a door its request id, log line and span, in the order they must be. What a
 * browser asks first, whether it may call at all, is answered before.
 */
export function observe(app: Hono<GatewayEnv>, deps: DoorDeps, spanKind: string): void {
  app.use(crossOrigin(deps.corsOrigins));
  app.use(requestId());
  app.use(requestLog(deps.logger));
  app.use(traced(deps.tracer, spanKind));
}

/**
 * Passes the call on and returns when its answer has ended, so that log line and span cover all of
 * a stream.
 *
 * @param headers What only this upstream gets from us, by lower-case name.
 */
export async function forwardTo(
  deps: ForwarderDeps,
  c: Context<GatewayEnv>,
  destination: Destination,
  upstream: URL,
  headers: Record<string, string>,
): Promise<Response> {
  const id = { [REQUEST_ID_HEADER]: c.get("requestId") ?? "" };
  const call = {
    incoming: c.env.incoming,
    destination,
    upstream,
    path: pathAndQuery(c.req.url),
    requestHeaders: { ...headers, ...id, ...traceHeaders() },
    responseHeaders: answerHeaders(c),
  };
  if (c.req.method === "HEAD") return deps.proxy.head(call);
  const outcome = await deps.proxy.forward({ ...call, outgoing: c.env.outgoing });
  if (outcome.kind === "client-gone") return alreadySent(CLIENT_CLOSED_REQUEST);
  if (outcome.kind === "truncated") {
    const { message } = outcome.error;
    c.get("span")?.setStatus({ code: SpanStatusCode.ERROR, message });
    deps.logger.warn({ request_id: c.get("requestId"), error: message }, "upstream broke off");
  }
  return alreadySent(outcome.status);
}
