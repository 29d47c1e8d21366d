import type pg from "pg";
import { z } from "zod";

/** One line of the list of traces. */
export interface TraceSummary {
  traceId: string;
  startedAt: Date;
  durationMs: number;
  name: string;
  graphId: string | null;
  tenant: string | null;
  /** The start of what the run was asked, as its span holds it. */
  input: string | null;
  spans: number;
  tokens: number;
  failed: boolean;
}

/** One span of a trace. Long attribute values come cut. */
export interface TraceSpan {
  spanId: string;
  parentSpanId: string | null;
  service: string;
  name: string;
  kind: string;
  startedAt: Date;
  /** Since the trace's first span began. */
  offsetUs: number;
  durationUs: number;
  failed: boolean;
  statusMessage: string | null;
  attributes: Record<string, unknown>;
}

export interface TraceFilter {
  /** Part of the name, graph id, tenant, trace id or input; case does not matter. */
  text?: string | undefined;
  graphId?: string | undefined;
  failedOnly: boolean;
}

export interface TracePage {
  traces: TraceSummary[];
  /** Where the next, older page begins; absent on the last one. */
  next?: string;
}

/** Reads what the span stores keep. */
export interface TraceStore {
  list(filter: TraceFilter, cursor: string | undefined): Promise<TracePage>;
  /** The spans in order of their start, the first {@link SPAN_LIMIT} of them. */
  spansOf(traceId: string): Promise<{ spans: TraceSpan[]; total: number }>;
  graphIds(): Promise<string[]>;
}

export const PAGE_SIZE = 50;
export const SPAN_LIMIT = 1_000;
/** Characters of one attribute's value that a page shows. */
export const VALUE_LIMIT = 8_000;

export function createTraceStore(pool: pg.Pool): TraceStore {
  return {
    list: (filter, cursor) => listTraces(pool, filter, cursor),
    spansOf: (traceId) => spansOf(pool, traceId),
    graphIds: () => graphIds(pool),
  };
}

async function listTraces(
  pool: pg.Pool,
  filter: TraceFilter,
  cursor: string | undefined,
): Promise<TracePage> {
  const values: unknown[] = [];
  const value = (given: unknown) => `$${values.push(given)}`;
  const conditions = ["true"];
  if (filter.graphId) conditions.push(`graph_id = ${value(filter.graphId)}`);
  if (filter.failedOnly) conditions.push("failed");
  if (filter.text) {
    const text = value(filter.text.toLowerCase());
    const fields = ["name", "graph_id", "tenant", "trace_id", "input"];
    conditions.push(
      `(${fields.map((field) => `strpos(lower(${field}), ${text}) > 0`).join(" OR ")})`,
    );
  }
  const after = decodeCursor(cursor);
  if (after !== undefined) {
    const instant = `'epoch'::timestamptz + ${value(after.us)}::bigint * interval '1 microsecond'`;
    conditions.push(`(started_at, trace_id) < (${instant}, ${value(after.traceId)})`);
  }
  const { rows } = await pool.query<TraceRow>(
    `SELECT trace_id, started_at, name, graph_id, tenant, input, spans, failed,
            greatest(metered_tokens, reported_tokens) AS tokens,
            extract(epoch FROM ended_at - started_at) * 1000 AS duration_ms,
            (extract(epoch FROM started_at) * 1000000)::bigint AS started_us
     FROM tracing.trace
     WHERE ${conditions.join(" AND ")}
     ORDER BY started_at DESC, trace_id DESC
     LIMIT ${PAGE_SIZE + 1}`,
    values,
  );
  const traces = rows.slice(0, PAGE_SIZE);
  const last = traces.at(-1);
  return {
    traces: traces.map(traceOf),
    ...(rows.length > PAGE_SIZE && last && { next: `${last.started_us}.${last.trace_id}` }),
  };
}

interface TraceRow {
  trace_id: string;
  started_at: Date;
  started_us: string;
  duration_ms: string;
  name: string;
  graph_id: string | null;
  tenant: string | null;
  input: string | null;
  spans: number;
  tokens: string;
  failed: boolean;
}

function traceOf(row: TraceRow): TraceSummary {
  return {
    traceId: row.trace_id,
    startedAt: row.started_at,
    durationMs: Number(row.duration_ms),
    name: row.name,
    graphId: row.graph_id,
    tenant: row.tenant,
    input: row.input,
    spans: row.spans,
    tokens: Number(row.tokens),
    failed: row.failed,
  };
}

/** Microseconds since 1970 and the trace id of the last row. */
const cursorShape = z.string().regex(/^\d{1,16}\.[0-9a-f]{32}$/);

/** A cursor that isn't one of ours begins at the newest trace. */
function decodeCursor(cursor: string | undefined): { us: string; traceId: string } | undefined {
  const [us, traceId] = cursorShape.safeParse(cursor).data?.split(".") ?? [];
  return us === undefined || traceId === undefined ? undefined : { us, traceId };
}

async function spansOf(pool: pg.Pool, traceId: string) {
  const { rows } = await pool.query<SpanRow>(
    `SELECT span_id, parent_span_id, service, name, kind, started_at, duration_us, failed,
            status_message, count(*) OVER () AS total,
            extract(epoch FROM started_at - min(started_at) OVER ()) * 1000000 AS offset_us,
            (SELECT jsonb_object_agg(key, CASE
               WHEN jsonb_typeof(value) = 'string' AND length(value #>> '{}') > $2
               THEN to_jsonb(left(value #>> '{}', $2) || '…') ELSE value END)
             FROM jsonb_each(attributes)) AS attributes
     FROM tracing.span
     WHERE trace_id = $1
     ORDER BY started_at, span_id
     LIMIT ${SPAN_LIMIT}`,
    [traceId, VALUE_LIMIT],
  );
  return { spans: rows.map(spanOf), total: Number(rows[0]?.total ?? 0) };
}

interface SpanRow {
  span_id: string;
  parent_span_id: string | null;
  service: string;
  name: string;
  kind: string;
  started_at: Date;
  offset_us: string;
  duration_us: string;
  failed: boolean;
  status_message: string | null;
  attributes: Record<string, unknown> | null;
  total: string;
}

function spanOf(row: SpanRow): TraceSpan {
  return {
    spanId: row.span_id,
    parentSpanId: row.parent_span_id,
    service: row.service,
    name: row.name,
    kind: row.kind,
    startedAt: row.started_at,
    offsetUs: Number(row.offset_us),
    durationUs: Number(row.duration_us),
    failed: row.failed,
    statusMessage: row.status_message,
    attributes: row.attributes ?? {},
  };
}

/** Steps from one graph id to the next through the index: a plain DISTINCT would read every row. */
async function graphIds(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ graph_id: string }>(
    `WITH RECURSIVE known(graph_id) AS (
       (SELECT min(graph_id) FROM tracing.trace)
       UNION ALL
       SELECT (SELECT min(graph_id) FROM tracing.trace WHERE graph_id > known.graph_id)
       FROM known WHERE known.graph_id IS NOT NULL)
     SELECT graph_id FROM known WHERE graph_id IS NOT NULL LIMIT 500`,
  );
  return rows.map((row) => row.graph_id);
}
