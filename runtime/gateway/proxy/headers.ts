import type { IncomingHttpHeaders } from "node:http";
import { PLATFORM_HEADER_PREFIX } from "../../common/identity.ts";

/** Headers of one connection (RFC 9110, 7.6.1), which say nothing about the next one. */
const HOP_BY_HOP = [
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/** Where a call goes, which decides what of the headers goes along. */
export type Destination = "worker" | "model-gateway" | "tool-gateway" | "trace-ui";

/** A trace begins at our door: what the client says of its own is linked there and stays outside. */
const TRACE = ["traceparent", "tracestate", "baggage"];

/** `expect` has been answered by our own server. */
const NEVER_UPSTREAM = [...HOP_BY_HOP, ...TRACE, "expect", "forwarded"];
/** `host` is set for the upstream. */
const NEVER_TO_OURS = [...NEVER_UPSTREAM, "host", "cookie", "x-api-key", "x-tenant-id"];

const DROPPED_UPSTREAM: Record<Destination, ReadonlySet<string>> = {
  worker: new Set([...NEVER_TO_OURS, "authorization"]),
  // These check the token themselves.
  "model-gateway": new Set(NEVER_TO_OURS),
  "tool-gateway": new Set(NEVER_TO_OURS),
  // It has a sign-in of its own, and compares the host that it was asked for with the page's origin.
  "trace-ui": new Set(NEVER_UPSTREAM),
};

const NEVER_DOWNSTREAM = [...HOP_BY_HOP, "server", "x-hono-already-sent", "x-request-id"];
/** Which pages may read an answer is the platform's to say, not an agent's. */
const CROSS_ORIGIN = [
  "access-control-allow-origin",
  "access-control-allow-credentials",
  "access-control-expose-headers",
];
const FROM_OURS: ReadonlySet<string> = new Set([
  ...NEVER_DOWNSTREAM,
  ...CROSS_ORIGIN,
  "set-cookie",
]);

const DROPPED_DOWNSTREAM: Record<Destination, ReadonlySet<string>> = {
  worker: FROM_OURS,
  "model-gateway": FROM_OURS,
  "tool-gateway": FROM_OURS,
  "trace-ui": new Set(NEVER_DOWNSTREAM),
};

/**
 * The headers of a client's request as they go upstream, as a flat list of names and values.
 *
 * @param raw `IncomingMessage.rawHeaders`: repeated headers stay repeated.
 * @param connection The client's `Connection` header: it may name more headers of this hop.
 * @param added Ours, by lower-case name. They replace what the client sent under that name.
 */
export function upstreamHeaders(
  raw: readonly string[],
  connection: string | undefined,
  destination: Destination,
  added: Readonly<Record<string, string>>,
): string[] {
  const dropped = DROPPED_UPSTREAM[destination];
  const named = namedByConnection(connection);
  const headers: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? "";
    const lower = name.toLowerCase();
    if (
      dropped.has(lower) ||
      lower.startsWith(PLATFORM_HEADER_PREFIX) ||
      lower.startsWith("x-forwarded-") ||
      Object.hasOwn(added, lower) ||
      named?.has(lower)
    ) {
      continue;
    }
    headers.push(name, raw[index + 1] ?? "");
  }
  for (const name in added) headers.push(name, added[name] ?? "");
  return headers;
}

/**
 * The headers of an upstream's answer as the client gets them, as a flat list.
 *
 * @param added Ours, by lower-case name.
 */
export function downstreamHeaders(
  headers: IncomingHttpHeaders,
  source: Destination,
  added: Readonly<Record<string, string>>,
): string[] {
  const dropped = DROPPED_DOWNSTREAM[source];
  const named = namedByConnection(headers.connection);
  const answer: string[] = [];
  for (const name in headers) {
    if (dropped.has(name) || name.startsWith(PLATFORM_HEADER_PREFIX) || named?.has(name)) {
      continue;
    }
    const value = headers[name];
    if (typeof value === "string") answer.push(name, value);
    else for (const one of value ?? []) answer.push(name, one);
  }
  for (const name in added) answer.push(name, added[name] ?? "");
  return answer;
}

function namedByConnection(connection: string | undefined): Set<string> | undefined {
  if (connection === undefined || connection === "keep-alive" || connection === "close") {
    return undefined;
  }
  return new Set(connection.split(",").map((name) => name.trim().toLowerCase()));
}
