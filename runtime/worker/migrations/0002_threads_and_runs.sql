-- Up Migration

-- A thread belongs to one tenant and one graph: nothing is ever looked up without both.
-- `settled` is its status when no run is active. jsonb can't hold U+0000 and lone surrogates:
-- metadata is stored with marks in their place, see jsonb.ts.
CREATE TABLE thread (
  tenant      text        NOT NULL,
  graph_id    text        NOT NULL,
  thread_id   uuid        NOT NULL,
  status      text        NOT NULL DEFAULT 'idle'
              CHECK (status IN ('idle', 'busy', 'interrupted', 'error')),
  settled     text        NOT NULL DEFAULT 'idle'
              CHECK (settled IN ('idle', 'interrupted', 'error')),
  metadata    jsonb       NOT NULL DEFAULT '{}',
  config      json        NOT NULL DEFAULT '{}',
  "values"    json,
  interrupts  json        NOT NULL DEFAULT '{}',
  error       json,
  created_at  timestamptz NOT NULL DEFAULT now(),
  updated_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, graph_id, thread_id)
);
CREATE INDEX thread_by_creation ON thread (tenant, graph_id, created_at DESC);
CREATE INDEX thread_by_metadata ON thread USING gin (metadata jsonb_path_ops);

-- A run of a thread. `ephemeral` runs have no thread row: their checkpoints go when they end.
-- Who executes a run holds its claim_token until lease_until; every write of the run names it.
-- `attempt` counts the starts; `released` those that ended because the worker was told to stop.
CREATE TABLE run (
  tenant             text        NOT NULL,
  graph_id           text        NOT NULL,
  run_id             uuid        NOT NULL,
  thread_id          uuid        NOT NULL,
  assistant_id       uuid        NOT NULL,
  status             text        NOT NULL
                     CHECK (status IN ('pending', 'running', 'success', 'error', 'timeout', 'interrupted')),
  ephemeral          boolean     NOT NULL,
  recorded           boolean     NOT NULL,
  multitask_strategy text        NOT NULL,
  metadata           json        NOT NULL,
  kwargs             json        NOT NULL,
  output             json,
  attempt            integer     NOT NULL DEFAULT 0,
  released           integer     NOT NULL DEFAULT 0,
  claim_token        uuid,
  lease_until        timestamptz,
  available_at       timestamptz NOT NULL DEFAULT now(),
  cancel_action      text        CHECK (cancel_action IN ('interrupt', 'rollback')),
  caller             json        NOT NULL,
  created_at         timestamptz NOT NULL DEFAULT now(),
  updated_at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, graph_id, run_id)
) WITH (fillfactor = 70);
-- The backstop against two workers on one thread.
CREATE UNIQUE INDEX run_running ON run (tenant, graph_id, thread_id) WHERE status = 'running';
CREATE INDEX run_pending ON run (created_at) WHERE status = 'pending';
CREATE INDEX run_by_thread ON run (tenant, graph_id, thread_id, created_at DESC);
-- What is forgotten in time: outputs of successes, and ephemeral runs altogether.
CREATE INDEX run_to_forget ON run (updated_at)
  WHERE output IS NOT NULL AND (ephemeral OR status <> 'error');

-- What a streamed or background run told its listeners, for replay by Last-Event-ID.
CREATE TABLE run_event (
  tenant     text        NOT NULL,
  graph_id   text        NOT NULL,
  run_id     uuid        NOT NULL,
  id         bigint      NOT NULL,
  event      text        NOT NULL,
  data       text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, graph_id, run_id, id)
);
CREATE INDEX run_event_by_age ON run_event USING brin (created_at);
