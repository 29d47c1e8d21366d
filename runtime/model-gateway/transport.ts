import type { IncomingHttpHeaders } from "node:http";
import { Agent, type Dispatcher } from "undici";
import type { Endpoint, HttpProvider, Provider } from "./providers/provider.ts";

/** One try at a provider. */
export interface UpstreamCall {
  endpoint: Endpoint;
  /** JSON with the provider's own model name; absent for a GET. */
  body?: Buffer;
  signal: AbortSignal;
}

/** What a provider answered: the headers are in, the body may still be coming. */
export interface UpstreamAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: AsyncIterable<Buffer>;
}

export type Send = (call: UpstreamCall) => Promise<UpstreamAnswer>;

const CONNECT_TIMEOUT_MS = 5_000;

/**
 * The connections to providers, shared by all calls.
 *
 * @param idleMs How long a provider may pause in the middle of an answer. A pause that a slow
 *   client causes doesn't count.
 */
export function createAgent(idleMs: number): Agent {
  return new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS },
    // The deadline of the call bounds the time to the headers.
    headersTimeout: 0,
    bodyTimeout: idleMs,
    // One connection a stream, so that a slow client holds up its own answer only.
    allowH2: false,
    pipelining: 1,
  });
}

/** Sends one call to a provider, over HTTP or inside the process. Never forwards client headers. */
export function createTransport(
  agent: Dispatcher,
): (provider: Provider, call: UpstreamCall) => Promise<UpstreamAnswer> {
  return (provider, call) =>
    "send" in provider ? provider.send(call) : sendOverHttp(agent, provider, call);
}

async function sendOverHttp(
  agent: Dispatcher,
  provider: HttpProvider,
  { endpoint, body, signal }: UpstreamCall,
): Promise<UpstreamAnswer> {
  const { origin, pathname } = new URL(provider.baseUrl);
  const answer = await agent.request({
    origin,
    path: `${pathname === "/" ? "" : pathname}/${endpoint}`,
    method: body === undefined ? "GET" : "POST",
    headers: {
      ...provider.headers(endpoint),
      ...(body !== undefined && { "content-type": "application/json" }),
      accept: "application/json, text/event-stream",
      // The tap reads the bytes as they pass.
      "accept-encoding": "identity",
      "user-agent": "platform-model-gateway",
    },
    ...(body !== undefined && { body }),
    signal,
  });
  return { status: answer.statusCode, headers: answer.headers, body: answer.body };
}
