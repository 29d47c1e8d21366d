import { type ExportResult, hrTimeToMicroseconds } from "@opentelemetry/core";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace-base";
import type { Logger } from "./logging.ts";
import { createPool, isConnectionLoss } from "./postgres.ts";

/**
 * Keeps spans in PostgreSQL, table `tracing.span`, where the console of the embedded way reads
 * them. The role may only insert. Spans that can't be written are lost and logged: tracing never
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

  async function insert(spans: ReadableSpan[]): Promise<void> {
    const rows = storable(JSON.stringify(spans.map((span) => spanRow(span, service))));
    await pool.query({ name: "insert-spans", text: INSERT, values: [rows] });
  }

  /** Returns how many were lost: one that the database refuses must not take its neighbours along. */
  async function insertEach(spans: ReadableSpan[]): Promise<number> {
    const inserts = await Promise.allSettled(spans.map((span) => insert([span])));
    return inserts.filter(({ status }) => status === "rejected").length;
  }

  async function write(spans: ReadableSpan[]): Promise<ExportResult> {
    try {
      await insert(spans);
      return { code: 0 };
    } catch (error) {
      const lost = isConnectionLoss(error) ? spans.length : await insertEach(spans);
      const { message } = error as Error;
      logger.warn({ error: message, spans: lost }, "spans lost");
      return { code: 1, error: error as Error };
    }
  }

  return {
    export: (spans, done) => void write(spans).then(done),
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
    attributes: span.attributes,
  };
}

/** The two texts that JSON can write and PostgreSQL can't keep: U+0000, and half a character. */
const UNSTORABLE = /(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f]..)/g;

/**
 * Rows that PostgreSQL takes whatever a client or a model wrote, and wherever it was cut.
 *
 * @param json As JSON.stringify writes it, which escapes both of the two and no whole character.
 */
function storable(json: string): string {
  return json.replace(UNSTORABLE, "$1\ufffd");
}
