import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { HttpError, openaiError, tooLarge } from "../common/errors.ts";
import type { IdentifyCaller } from "./caller.ts";
import type { Env } from "./forward.ts";
import { onlyMethod } from "./only-method.ts";

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
 * platform's. So no agent holds a key to everybody's traces.
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
        await identify(c.req.header("authorization"), undefined);
        if (collector === undefined) {
          throw new HttpError(404, "not_found", "This installation collects no traces.");
        }
        const answer = await fetch(`${collector.endpoint.replace(/\/$/, "")}/v1/traces`, {
          method: "POST",
          headers: {
            ...otlpHeaders(collector.headers),
            "content-type": c.req.header("content-type") ?? "application/x-protobuf",
            ...encodingOf(c.req.header("content-encoding")),
          },
          body: await c.req.arrayBuffer(),
          signal: AbortSignal.timeout(DEADLINE_MS),
        }).catch((cause: unknown) => {
          throw new HttpError(503, "unavailable", "The trace collector does not answer.", {
            cause,
          });
        });
        // What the collector says of itself stays here.
        return c.body(null, answer.ok ? 200 : 502);
      },
    )
    .all("/", onlyMethod("POST"));
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

function encodingOf(encoding: string | undefined): Record<string, string> {
  return encoding === undefined ? {} : { "content-encoding": encoding };
}
