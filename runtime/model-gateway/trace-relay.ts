import { promisify } from "node:util";
import { gunzip as gunzipCallback } from "node:zlib";
import { parseKeyPairsIntoRecord } from "@opentelemetry/core";
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
  /** Takes OTLP over HTTP, e.g. `http://phoenix:6006/v1/traces`. */
  url: string;
  /** The platform's key among them opens the whole tracing UI. */
  headers: Readonly<Record<string, string>>;
}

/** The standard variables of an OTLP exporter; those of traces go before those of all signals. */
export interface ExporterVariables {
  OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined;
  OTEL_EXPORTER_OTLP_HEADERS?: string | undefined;
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT?: string | undefined;
  OTEL_EXPORTER_OTLP_TRACES_HEADERS?: string | undefined;
}

/** The collector that our own spans go to too. */
export function traceCollector(variables: ExporterVariables): TraceCollector | undefined {
  const base = variables.OTEL_EXPORTER_OTLP_ENDPOINT?.replace(/\/$/, "");
  const url = variables.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (base && `${base}/v1/traces`);
  if (!url) return undefined;
  const headers = {
    ...parseKeyPairsIntoRecord(variables.OTEL_EXPORTER_OTLP_HEADERS),
    ...parseKeyPairsIntoRecord(variables.OTEL_EXPORTER_OTLP_TRACES_HEADERS),
  };
  return { url, headers };
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
async function handOn({ url, headers }: TraceCollector, spans: Buffer): Promise<number> {
  try {
    const answer = await fetch(url, {
      method: "POST",
      headers: { ...headers, "content-type": CONTENT_TYPE },
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
