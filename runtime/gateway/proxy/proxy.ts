import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { Agent } from "undici";
import { HttpError, tooLarge } from "../../common/errors.ts";
import { type Destination, downstreamHeaders, upstreamHeaders } from "./headers.ts";
import { answersProbe } from "./probe.ts";
import { arrivedBody, hasBody, RequestBody } from "./request-body.ts";
import { type RelayOutcome, relayResponse } from "./response-relay.ts";
import { createSilenceWatch, type SilenceOptions, type SilenceWatch } from "./silence-watch.ts";

export interface ProxyOptions {
  /** The largest request body that is passed on, in bytes. */
  bodyLimitBytes: number;
  /** What to wait for before a call that reached nobody is sent once more. */
  retryPause?: () => Promise<unknown>;
  /** When an upstream that says nothing is given up. */
  silence?: SilenceOptions;
  /** How long a client may take nothing of an answer that waits for it, in ms. */
  stallMs?: number;
}

/** One call to pass on. */
export interface Forwarding {
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  destination: Destination;
  /** Scheme, host and port of the upstream; its path is not used. */
  upstream: URL;
  /** Path and query. */
  path: string;
  /** Headers the upstream gets from us, by lower-case name. */
  requestHeaders: Readonly<Record<string, string>>;
  /** Headers the client gets from us, by lower-case name. */
  responseHeaders: Readonly<Record<string, string>>;
}

/** How a forwarded call ended: the answer has been sent, in whole or in part. */
export type ForwardOutcome = Exclude<RelayOutcome, { kind: "failed" }>;

export interface CallProxy {
  /**
   * Streams a call to its upstream and the answer back, and waits until the answer has ended.
   *
   * @throws HttpError 413 for a body past the limit, 502 where the upstream gave no answer. In both
   *   cases nothing has been sent to the client.
   */
  forward(call: Forwarding): Promise<ForwardOutcome>;
  /** Asks for the headers only. Apart, because a HEAD answer goes back through Hono. */
  head(call: Omit<Forwarding, "outgoing">): Promise<Response>;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 2_000;
/**
 * The kernel asks an idle peer whether it is there after this long, then every second; libuv has ten
 * unanswered questions end the connection.
 */
const KEEP_ALIVE_DELAY_MS = 10_000;
const HEAD_TIMEOUT_MS = 30_000;
/** A worker that is silent for so long has lost the leases of its runs. */
const SILENCE: SilenceOptions = { silentMs: 15_000, probeMs: 5_000, strikes: 3 };
/**
 * Not less: the kernel takes megabytes ahead, and tells that there is room again only once much of
 * them has gone, which takes a client that reads steadily at 20 kB/s more than a minute.
 */
const STALL_MS = 300_000;
/** Long enough for a worker's listener that is being replaced, short enough not to be noticed. */
const RETRY_PAUSE_MS = 250;
const standardPause = () => delay(RETRY_PAUSE_MS);

export function createProxy(options: ProxyOptions): CallProxy {
  const agent = new Agent({
    // Connections are not capped: a stream holds one for as long as it lasts, and a cap would let
    // idle streams starve short calls.
    pipelining: 1,
    connect: { timeout: CONNECT_TIMEOUT_MS, keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS },
    // A run may be silent for as long as it likes; its client decides how long to wait. Whether its
    // worker still lives is asked apart.
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false,
  });
  const silence = options.silence ?? SILENCE;
  const watch = createSilenceWatch(silence, (origin) => answersProbe(origin, silence.probeMs));
  return {
    forward: (call) => forward(agent, watch, options, call),
    head: (call) => head(agent, call),
    close() {
      watch.stop();
      return agent.destroy();
    },
  };
}

async function forward(
  agent: Agent,
  watch: SilenceWatch,
  options: ProxyOptions,
  call: Forwarding,
): Promise<ForwardOutcome> {
  const { bodyLimitBytes: limitBytes, retryPause = standardPause, stallMs = STALL_MS } = options;
  refuseAnnouncedExcess(call.incoming, limitBytes);
  const headers = headersOf(call);
  const arrived = arrivedBody(call.incoming);
  for (let attempt = 1; ; attempt++) {
    const body = arrived ?? streamedBody(call.incoming, limitBytes);
    const relay = relayResponse({ ...call, stallMs });
    agent.dispatch(
      {
        origin: relay.origin,
        path: call.path,
        method: call.incoming.method ?? "GET",
        headers,
        body,
      },
      relay.handler,
    );
    watch.add(relay);
    const outcome = await relay.outcome;
    watch.remove(relay);
    if (outcome.kind !== "failed") return outcome;
    if (outcome.error instanceof HttpError) throw outcome.error;
    if (attempt > 1 || !isUnhandled(call.incoming, body, outcome.reachedUpstream)) {
      throw badGateway(call.destination, outcome.error);
    }
    await retryPause();
    if (call.outgoing.destroyed) return { kind: "client-gone" } as const;
  }
}

async function head(agent: Agent, call: Omit<Forwarding, "outgoing">): Promise<Response> {
  try {
    const answer = await agent.request({
      origin: call.upstream.origin,
      path: call.path,
      method: "HEAD",
      headersTimeout: HEAD_TIMEOUT_MS,
      headers: headersOf(call),
    });
    await answer.body.dump();
    const flat = downstreamHeaders(answer.headers, call.destination, call.responseHeaders);
    const headers = new Headers();
    for (let index = 0; index + 1 < flat.length; index += 2) {
      headers.append(flat[index] ?? "", flat[index + 1] ?? "");
    }
    return new Response(null, { status: answer.statusCode, headers });
  } catch (error) {
    throw badGateway(call.destination, error);
  }
}

/** A length that says it all spares the client the upload. */
function refuseAnnouncedExcess(incoming: IncomingMessage, limitBytes: number): void {
  if (Number(incoming.headers["content-length"] ?? 0) > limitBytes) throw tooLarge(limitBytes);
}

function headersOf(call: Omit<Forwarding, "outgoing">): string[] {
  const { rawHeaders, headers } = call.incoming;
  return upstreamHeaders(rawHeaders, headers.connection, call.destination, call.requestHeaders);
}

function streamedBody(incoming: IncomingMessage, limitBytes: number): RequestBody | null {
  return hasBody(incoming) ? new RequestBody(incoming, limitBytes) : null;
}

/** True where the upstream can't have acted on the call, so that it may be sent again. */
function isUnhandled(
  incoming: IncomingMessage,
  body: Buffer | RequestBody | null,
  reachedUpstream: boolean,
): boolean {
  if (body instanceof RequestBody && body.started) return false;
  return !reachedUpstream || incoming.method === "GET";
}

const SILENT: Record<Destination, string> = {
  worker: "The agent's worker does not answer. It may be restarting: try again shortly.",
  "model-gateway": "The model gateway does not answer. It may be restarting: try again shortly.",
  "tool-gateway": "The tool gateway does not answer. It may be restarting: try again shortly.",
  "trace-ui": "The tracing UI does not answer. It may be restarting: try again shortly.",
};

function badGateway(destination: Destination, cause: unknown): HttpError {
  return new HttpError(502, "bad_gateway", SILENT[destination], {
    headers: { "retry-after": "1" },
    cause,
  });
}
