-- Up Migration

-- What the programs' span stores insert (runtime/common/span-store.ts). They may only insert.
CREATE TABLE tracing.span (
  trace_id       text        NOT NULL,
  span_id        text        NOT NULL,
  parent_span_id text,
  service        text        NOT NULL,
  name           text        NOT NULL,
  kind           text        NOT NULL,
  started_at     timestamptz NOT NULL,
  duration_us    bigint      NOT NULL,
  failed         boolean     NOT NULL,
  status_message text,
  tenant         text,
  attributes     jsonb       NOT NULL,
  PRIMARY KEY (trace_id, span_id)
);

-- One row a trace, so that the list needs no look at the spans. Kept by the trigger below.
CREATE TABLE tracing.trace (
  trace_id        text        PRIMARY KEY,
  started_at      timestamptz NOT NULL,
  ended_at        timestamptz NOT NULL,
  name            text        NOT NULL,
  -- Whether the name is that of a span without a parent, which is the last to come.
  rooted          boolean     NOT NULL,
  graph_id        text,
  tenant          text,
  -- The start of the earliest input among the spans, and when that span began.
  input           text,
  input_at        timestamptz,
  spans           integer     NOT NULL,
  -- The model gateway meters each call to a model, and the agent's own span of the same call
  -- reports the tokens again: counted apart, and the larger sum is shown.
  metered_tokens  bigint      NOT NULL,
  reported_tokens bigint      NOT NULL,
  failed          boolean     NOT NULL
);

CREATE INDEX trace_newest ON tracing.trace (started_at DESC, trace_id DESC);
CREATE INDEX trace_newest_of_graph ON tracing.trace (graph_id, started_at DESC, trace_id DESC);
CREATE INDEX trace_newest_failed ON tracing.trace (started_at DESC, trace_id DESC) WHERE failed;

-- Spans of a trace come in any order, from several programs at once. Rows are taken in the order of
-- their key, so that two batches can't wait for each other. Runs as its owner: those who insert
-- spans have no right to the table of traces.
CREATE FUNCTION tracing.summarise_spans() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, tracing, pg_temp
AS $$
BEGIN
  INSERT INTO tracing.trace AS known
    (trace_id, started_at, ended_at, name, rooted, graph_id, tenant, input, input_at, spans,
     metered_tokens, reported_tokens, failed)
  SELECT
    trace_id,
    min(started_at),
    max(started_at + duration_us * interval '1 microsecond'),
    (array_agg(name ORDER BY parent_span_id IS NOT NULL, started_at))[1],
    bool_or(parent_span_id IS NULL),
    min(attributes ->> 'platform.graph_id'),
    min(tenant),
    (array_agg(left(attributes ->> 'input.value', 200) ORDER BY started_at)
      FILTER (WHERE attributes ? 'input.value'))[1],
    min(started_at) FILTER (WHERE attributes ? 'input.value'),
    count(*),
    coalesce(sum(tokens) FILTER (WHERE service = 'model-gateway'), 0),
    coalesce(sum(tokens) FILTER (WHERE service <> 'model-gateway'), 0),
    bool_or(failed)
  FROM (
    SELECT *, CASE
      -- What spans say is not ours to trust: a count is a whole number of sane size, or none.
      WHEN kind = 'LLM' AND attributes ->> 'llm.token_count.total' ~ '^[0-9]{1,12}$'
      THEN (attributes ->> 'llm.token_count.total')::bigint END AS tokens
    FROM inserted
  ) AS span
  GROUP BY trace_id
  ORDER BY trace_id
  ON CONFLICT (trace_id) DO UPDATE SET
    started_at = least(known.started_at, excluded.started_at),
    ended_at = greatest(known.ended_at, excluded.ended_at),
    name = CASE
      WHEN (NOT excluded.rooted, excluded.started_at) < (NOT known.rooted, known.started_at)
      THEN excluded.name ELSE known.name END,
    rooted = known.rooted OR excluded.rooted,
    graph_id = coalesce(known.graph_id, excluded.graph_id),
    tenant = coalesce(known.tenant, excluded.tenant),
    input = CASE
      WHEN known.input_at IS NULL OR excluded.input_at < known.input_at
      THEN excluded.input ELSE known.input END,
    input_at = least(known.input_at, excluded.input_at),
    spans = known.spans + excluded.spans,
    metered_tokens = known.metered_tokens + excluded.metered_tokens,
    reported_tokens = known.reported_tokens + excluded.reported_tokens,
    failed = known.failed OR excluded.failed;
  RETURN NULL;
END
$$;

-- Where new tables of this schema are open to those who insert spans, this one is not: a row here
-- is ours to make.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'span_writer') THEN
    REVOKE ALL ON tracing.trace FROM span_writer;
  END IF;
END
$$;

CREATE TRIGGER summarise_spans AFTER INSERT ON tracing.span
  REFERENCING NEW TABLE AS inserted
  FOR EACH STATEMENT EXECUTE FUNCTION tracing.summarise_spans();

-- Down Migration

DROP TABLE tracing.span, tracing.trace;
DROP FUNCTION tracing.summarise_spans();
