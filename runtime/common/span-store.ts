import { hrTimeToMicroseconds } from "@opentelemetry/core";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace-base";
import type { Logger } from "./logging.ts";
import { createPool } from "./postgres.ts";

/**
 * Keeps spans in PostgreSQL, table `tracing.span`, where the console of the embedded way reads
 * them. The role may only insert. A batch that can't be written is lost and logged: tracing never
 * holds up a call.
 */
export function createSpanStoreExporter(
  url: string,
  service: string,
  logger: Logger,
): SpanExporter {
  const pool = createPool(url, logger, {
    max: 1,
    synchronousCommit: false,
    applicationName: `${service}-spans`,
  });
  return {
    export(spans, done) {
      const rows = JSON.stringify(spans.map((span) => spanRow(span, service)));
      pool.query({ name: "insert-spans", text: INSERT, values: [rows] }).then(
        () => done({ code: 0 }),
        (error: Error) => {
          logger.warn({ error: error.message, spans: spans.length }, "spans lost");
          done({ code: 1, error });
        },
      );
    },
    forceFlush: async () => {},
    shutdown: () => pool.end(),
  };
}

const INSERT = `
  INSERT INTO tracing.span (trace_id, span_id, parent_span_id, service, name, kind, started_at,
                            duration_us, failed, status_message, tenant, attributes)
  SELECT trace_id, span_id, parent_span_id, service, name, kind,
         to_timestamp(started_us / 1e6), duration_us, failed, status_message, tenant, attributes
  FROM json_to_recordset($1::json) AS row(
    trace_id text, span_id text, parent_span_id text, service text, name text, kind text,
    started_us bigint, duration_us bigint, failed boolean, status_message text, tenant text,
    attributes jsonb)
  ON CONFLICT DO NOTHING`;

function spanRow(span: ReadableSpan, service: string) {
  const { traceId, spanId } = span.spanContext();
  return {
    trace_id: traceId,
    span_id: spanId,
    parent_span_id: span.parentSpanContext?.spanId ?? null,
    service,
    name: span.name,
    kind: span.attributes["openinference.span.kind"] ?? "UNKNOWN",
    started_us: Math.round(hrTimeToMicroseconds(span.startTime)),
    duration_us: Math.round(hrTimeToMicroseconds(span.duration)),
    failed: span.status.code === 2,
    status_message: span.status.message ?? null,
    tenant: span.attributes["platform.tenant"] ?? null,
    attributes: withoutNul(span.attributes),
  };
}

/** PostgreSQL's jsonb refuses U+0000, which a model may well produce. */
function withoutNul(attributes: ReadableSpan["attributes"]): ReadableSpan["attributes"] {
  return Object.fromEntries(
    Object.entries(attributes).map(([key, value]) => [
      key,
      typeof value === "string" && value.includes("\0") ? value.replaceAll("\0", "") : value,
    ]),
  );
}
