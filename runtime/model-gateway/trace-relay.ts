import { promisify } from "node:util";
import { gunzip as gunzipCallback } from "node:zlib";
import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { HttpError, openaiError, tooLarge } from "../common/errors.ts";
import type { Caller, IdentifyCaller } from "./caller.ts";
import type { Env } from "./forward.ts";
import { onlyMethod } from "./only-method.ts";
import { MalformedMessage } from "./protobuf-fields.ts";
import { stampSpans } from "./trace-stamp.ts";

const gunzip = promisify(gunzipCallback);

const CONTENT_TYPE = "application/x-protobuf";
/** Packed and unpacked. */
const LIMIT_BYTES = 4 * 1024 * 1024;
const DEADLINE_MS = 10_000;

/** Where spans of agents go on to. */
export interface TraceCollector {
  /** OTLP over HTTP, without `/v1/traces`. */
  endpoint: string;
  /** `OTEL_EXPORTER_OTLP_HEADERS` of the platform: `name=value,…`. Opens the whole tracing UI. */
  headers: string | undefined;
}

/**
 * `POST /otlp/v1/traces`: takes an agent's spans with its consumer token and hands them on with the
 * platform's, stamped with whose they are. So no agent holds a key to everybody's traces, and none
 * passes for another.
 */
export function traceRelayRoutes(deps: {
  identify: IdentifyCaller;
  collector?: TraceCollector | undefined;
}): Hono<Env> {
  const { identify, collector } = deps;
  return new Hono<Env>()
    .post(
      "/",
      bodyLimit({ maxSize: LIMIT_BYTES, onError: (c) => openaiError(c, tooLarge(LIMIT_BYTES)) }),
      async (c) => {
        const caller = await identify(c.req.header("authorization"), undefined);
        if (collector === undefined) {
          throw new HttpError(404, "not_found", "This installation collects no traces.");
        }
        checkType(c.req.header("content-type"));
        const sent = Buffer.from(await c.req.arrayBuffer());
        const spans = stamped(await unpacked(sent, c.req.header("content-encoding")), caller);
        const status = await handOn(collector, spans);
        // What the collector says of itself stays here.
        return c.body(null, status < 300 ? 200 : 502);
      },
    )
    .all("/", onlyMethod("POST"));
}

/** @throws HttpError 415: JSON can't be stamped without a second reader of the same thing. */
function checkType(type: string | undefined): void {
  if (type?.split(";")[0]?.trim().toLowerCase() === CONTENT_TYPE) return;
  throw new HttpError(
    415,
    "unsupported_media_type",
    `Send spans as ${CONTENT_TYPE} (OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf).`,
  );
}

/** @throws HttpError 413 for what unpacks to more than fits, 415 for another encoding than gzip. */
async function unpacked(body: Buffer, encoding = "identity"): Promise<Buffer> {
  if (encoding === "identity") return body;
  if (encoding !== "gzip") {
    throw new HttpError(415, "unsupported_encoding", "Send spans with gzip or without encoding.");
  }
  try {
    return await gunzip(body, { maxOutputLength: LIMIT_BYTES });
  } catch (cause) {
    if (cause instanceof RangeError) throw tooLarge(LIMIT_BYTES);
    throw new HttpError(400, "invalid_body", "The body is not valid gzip.", { cause });
  }
}

/** @throws HttpError 400 for what isn't protobuf. */
function stamped(body: Buffer, caller: Caller): Buffer {
  try {
    return stampSpans(body, caller);
  } catch (cause) {
    if (!(cause instanceof MalformedMessage)) throw cause;
    throw new HttpError(400, "invalid_body", `The body is not valid protobuf: ${cause.message}.`);
  }
}

/**
 * A redirect is an error: the platform's key must not go where a collector points.
 *
 * @throws HttpError 503 where nobody answers in time.
 */
async function handOn({ endpoint, headers }: TraceCollector, spans: Buffer): Promise<number> {
  try {
    const answer = await fetch(`${endpoint.replace(/\/$/, "")}/v1/traces`, {
      method: "POST",
      headers: { ...otlpHeaders(headers), "content-type": CONTENT_TYPE },
      body: new Uint8Array(spans),
      redirect: "error",
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    await answer.body?.cancel();
    return answer.status;
  } catch (cause) {
    throw new HttpError(503, "unavailable", "The trace collector does not answer.", { cause });
  }
}

/** Headers as the OpenTelemetry specification writes them: `name=value` pairs, percent-encoded. */
function otlpHeaders(list: string | undefined): Record<string, string> {
  const pairs = (list ?? "").split(",").filter((pair) => pair.includes("="));
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      return [
        pair.slice(0, at).trim().toLowerCase(),
        decodeURIComponent(pair.slice(at + 1).trim()),
      ];
    }),
  );
}
