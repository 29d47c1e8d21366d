-- Up Migration

-- A thread belongs to one tenant and one graph: nothing is ever looked up without both.
CREATE TABLE thread (
  tenant      text        NOT NULL,
  graph_id    text        NOT NULL,
  thread_id   uuid        NOT NULL,
  status      text        NOT NULL DEFAULT 'idle'
              CHECK (status IN ('idle', 'busy', 'interrupted', 'error')),
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
  metadata           jsonb       NOT NULL,
  kwargs             json        NOT NULL,
  output             json,
  attempt            integer     NOT NULL DEFAULT 0,
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
CREATE INDEX run_with_output ON run (updated_at) WHERE output IS NOT NULL;

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

-- The key under which the checkpointer's tables file a thread: they know no tenant.
CREATE FUNCTION checkpoint_key(p_tenant text, p_graph text, p_thread uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_tenant || '/' || p_graph || '/' || p_thread
$$;

CREATE FUNCTION delete_checkpoints(p_key text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM checkpoint_writes WHERE thread_id = p_key;
  DELETE FROM checkpoint_blobs WHERE thread_id = p_key;
  DELETE FROM checkpoints WHERE thread_id = p_key;
$$;

-- Accepts a run on a stored thread. Locks the thread first, so that two requests see each other.
-- Outcome: 'accepted', 'no_thread' or 'busy'. `cancelled` are the runs that the strategy stops.
CREATE FUNCTION accept_run(
  p_tenant text, p_graph text, p_run uuid, p_thread uuid, p_assistant uuid, p_strategy text,
  p_metadata jsonb, p_kwargs json, p_caller json, p_recorded boolean, p_create_thread boolean,
  p_claim uuid, p_lease_ms integer, p_delay_ms integer,
  OUT outcome text, OUT status text, OUT cancelled uuid[], OUT created_at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
  known boolean;
  active integer;
BEGIN
  SELECT r.status, r.created_at INTO status, created_at FROM run r
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run;
  IF FOUND THEN  -- a repeated request after a lost answer
    outcome := 'accepted';
    RETURN;
  END IF;

  IF p_create_thread THEN
    INSERT INTO thread (tenant, graph_id, thread_id) VALUES (p_tenant, p_graph, p_thread)
      ON CONFLICT DO NOTHING;
  END IF;
  SELECT true INTO known FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread FOR UPDATE;
  IF known IS NULL THEN
    outcome := 'no_thread';
    RETURN;
  END IF;

  SELECT count(*) INTO active FROM run r
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
      AND r.status IN ('pending', 'running');
  IF active > 0 AND p_strategy = 'reject' THEN
    outcome := 'busy';
    RETURN;
  END IF;
  IF active > 0 AND p_strategy IN ('interrupt', 'rollback') THEN
    cancelled := cancel_runs(p_tenant, p_graph, p_thread, NULL, p_strategy);
    SELECT count(*) INTO active FROM run r
      WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
        AND r.status IN ('pending', 'running');
  END IF;

  status := CASE WHEN p_claim IS NOT NULL AND active = 0 AND p_delay_ms = 0
                 THEN 'running' ELSE 'pending' END;
  INSERT INTO run (tenant, graph_id, run_id, thread_id, assistant_id, status, ephemeral, recorded,
                   multitask_strategy, metadata, kwargs, caller, attempt, claim_token, lease_until,
                   available_at)
    VALUES (p_tenant, p_graph, p_run, p_thread, p_assistant, status, false, p_recorded,
            p_strategy, p_metadata, p_kwargs, p_caller,
            CASE WHEN status = 'running' THEN 1 ELSE 0 END,
            CASE WHEN status = 'running' THEN p_claim END,
            CASE WHEN status = 'running' THEN now() + p_lease_ms * interval '1 ms' END,
            now() + p_delay_ms * interval '1 ms')
    RETURNING run.created_at INTO created_at;
  UPDATE thread t SET status = 'busy', updated_at = now(),
      metadata = t.metadata || jsonb_build_object('graph_id', p_graph, 'assistant_id', p_assistant)
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread;
  outcome := 'accepted';
END $$;

-- Asks runs to stop: one run, or every active run of a thread (p_run NULL). Waiting ones stop here
-- and now; for running ones the request is noted and their worker carries it out.
-- Returns the ids of all runs it touched.
CREATE FUNCTION cancel_runs(
  p_tenant text, p_graph text, p_thread uuid, p_run uuid, p_action text
) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  touched uuid[];
BEGIN
  PERFORM 1 FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread FOR UPDATE;
  WITH waiting AS (
    UPDATE run r SET status = 'interrupted', updated_at = now(), output = '{}'
      WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
        AND (p_run IS NULL OR r.run_id = p_run) AND r.status = 'pending'
      RETURNING r.run_id
  ), running AS (
    UPDATE run r SET cancel_action = p_action
      WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
        AND (p_run IS NULL OR r.run_id = p_run) AND r.status = 'running'
      RETURNING r.run_id
  )
  SELECT array_agg(run_id) INTO touched
    FROM (SELECT run_id FROM waiting UNION ALL SELECT run_id FROM running) AS both_kinds;
  IF p_action = 'rollback' THEN
    DELETE FROM run r
      WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
        AND r.run_id = ANY(touched) AND r.status = 'interrupted';
  END IF;
  PERFORM settle_thread(p_tenant, p_graph, p_thread, NULL);
  RETURN touched;
END $$;

-- Sets a thread's status by what is left to do: 'busy' while a run is active, else p_status
-- (NULL: a busy thread becomes idle, any other stays).
CREATE FUNCTION settle_thread(p_tenant text, p_graph text, p_thread uuid, p_status text)
RETURNS void LANGUAGE sql AS $$
  UPDATE thread t SET updated_at = now(), status = CASE
      WHEN EXISTS (SELECT 1 FROM run r
                   WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
                     AND r.status IN ('pending', 'running')) THEN 'busy'
      WHEN p_status IS NOT NULL THEN p_status
      WHEN t.status = 'busy' THEN 'idle'
      ELSE t.status END
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread
$$;

-- Ends a run of a stored thread, if the claim still holds. Returns 'lost' if it does not, 'queued'
-- if further runs of the thread wait, else 'done'.
CREATE FUNCTION finish_run(
  p_tenant text, p_graph text, p_run uuid, p_claim uuid, p_status text, p_output json,
  p_thread_status text, p_values json, p_interrupts json, p_error json
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  its_thread uuid;
BEGIN
  SELECT r.thread_id INTO its_thread FROM run r
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run;
  PERFORM 1 FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = its_thread FOR UPDATE;
  UPDATE run r SET status = p_status, output = p_output, claim_token = NULL, lease_until = NULL,
      updated_at = now()
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run
      AND r.claim_token = p_claim;
  IF NOT FOUND THEN
    RETURN 'lost';
  END IF;
  UPDATE thread t SET "values" = coalesce(p_values, t."values"), interrupts = p_interrupts,
      error = p_error
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = its_thread;
  PERFORM settle_thread(p_tenant, p_graph, its_thread, p_thread_status);
  RETURN (SELECT CASE WHEN t.status = 'busy' THEN 'queued' ELSE 'done' END FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = its_thread);
END $$;

-- Undoes a run: its checkpoints and its row go, the thread is as before. False if the claim is lost.
CREATE FUNCTION roll_back_run(p_tenant text, p_graph text, p_run uuid, p_claim uuid)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  its_thread uuid;
  its_key text;
BEGIN
  SELECT r.thread_id INTO its_thread FROM run r
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run;
  PERFORM 1 FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = its_thread FOR UPDATE;
  DELETE FROM run r
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run
      AND r.claim_token = p_claim;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  its_key := checkpoint_key(p_tenant, p_graph, its_thread);
  WITH undone AS (
    DELETE FROM checkpoints c
      WHERE c.thread_id = its_key AND c.metadata ->> 'run_id' = p_run::text
      RETURNING c.checkpoint_ns, c.checkpoint_id
  )
  DELETE FROM checkpoint_writes w USING undone u
    WHERE w.thread_id = its_key AND w.checkpoint_ns = u.checkpoint_ns
      AND w.checkpoint_id = u.checkpoint_id;
  PERFORM settle_thread(p_tenant, p_graph, its_thread, NULL);
  RETURN true;
END $$;

-- Puts runs whose lease is over back into the queue, or ends those that were tried often enough.
-- Returns what became of each.
CREATE FUNCTION reap_runs(p_max_attempts integer, p_output json)
RETURNS TABLE (tenant text, graph_id text, run_id uuid, thread_id uuid, status text)
LANGUAGE plpgsql AS $$
DECLARE
  lost record;
BEGIN
  FOR lost IN
    SELECT r.tenant, r.graph_id, r.run_id, r.thread_id, r.ephemeral, r.attempt, r.cancel_action
      FROM run r WHERE r.status = 'running' AND r.lease_until < now()
  LOOP
    -- Thread before run, as everywhere; a locked one is somebody's at this moment: next time.
    IF NOT lost.ephemeral THEN
      PERFORM 1 FROM thread t
        WHERE t.tenant = lost.tenant AND t.graph_id = lost.graph_id
          AND t.thread_id = lost.thread_id FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
    END IF;
    PERFORM 1 FROM run r
      WHERE r.tenant = lost.tenant AND r.graph_id = lost.graph_id AND r.run_id = lost.run_id
        AND r.status = 'running' AND r.lease_until < now() FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    IF lost.cancel_action IS NOT NULL OR lost.attempt >= p_max_attempts THEN
      UPDATE run r SET claim_token = NULL, lease_until = NULL, updated_at = now(),
          status = CASE WHEN lost.cancel_action IS NULL THEN 'error' ELSE 'interrupted' END,
          output = CASE WHEN lost.cancel_action IS NULL THEN p_output ELSE '{}'::json END
        WHERE r.tenant = lost.tenant AND r.graph_id = lost.graph_id AND r.run_id = lost.run_id
        RETURNING r.status INTO status;
      IF lost.ephemeral THEN
        PERFORM delete_checkpoints(checkpoint_key(lost.tenant, lost.graph_id, lost.thread_id));
      ELSE
        PERFORM settle_thread(lost.tenant, lost.graph_id, lost.thread_id,
                              CASE WHEN lost.cancel_action IS NULL THEN 'error' ELSE 'idle' END);
      END IF;
    ELSE
      UPDATE run r SET claim_token = NULL, lease_until = NULL, updated_at = now(), status = 'pending'
        WHERE r.tenant = lost.tenant AND r.graph_id = lost.graph_id AND r.run_id = lost.run_id
        RETURNING r.status INTO status;
    END IF;
    tenant := lost.tenant; graph_id := lost.graph_id; run_id := lost.run_id;
    thread_id := lost.thread_id;
    RETURN NEXT;
  END LOOP;
END $$;

-- Deletes a thread and all that belongs to it. False if there is none.
CREATE FUNCTION delete_thread(p_tenant text, p_graph text, p_thread uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  WITH gone AS (
    DELETE FROM run r
      WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
      RETURNING r.run_id
  )
  DELETE FROM run_event e USING gone
    WHERE e.tenant = p_tenant AND e.graph_id = p_graph AND e.run_id = gone.run_id;
  PERFORM delete_checkpoints(checkpoint_key(p_tenant, p_graph, p_thread));
  RETURN true;
END $$;

-- Copies a thread with its checkpoints. Does nothing if there is none.
CREATE FUNCTION copy_thread(p_tenant text, p_graph text, p_from uuid, p_to uuid) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO thread (tenant, graph_id, thread_id, status, metadata, config, "values", interrupts)
    SELECT tenant, graph_id, p_to, CASE WHEN status = 'busy' THEN 'idle' ELSE status END,
           metadata, config, "values", interrupts
      FROM thread WHERE tenant = p_tenant AND graph_id = p_graph AND thread_id = p_from
    ON CONFLICT DO NOTHING;
  INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,
                           checkpoint, metadata)
    SELECT checkpoint_key(p_tenant, p_graph, p_to), checkpoint_ns, checkpoint_id,
           parent_checkpoint_id, type, checkpoint, metadata
      FROM checkpoints WHERE thread_id = checkpoint_key(p_tenant, p_graph, p_from)
    ON CONFLICT DO NOTHING;
  INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT checkpoint_key(p_tenant, p_graph, p_to), checkpoint_ns, channel, version, type, blob
      FROM checkpoint_blobs WHERE thread_id = checkpoint_key(p_tenant, p_graph, p_from)
    ON CONFLICT DO NOTHING;
  INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,
                                 type, blob)
    SELECT checkpoint_key(p_tenant, p_graph, p_to), checkpoint_ns, checkpoint_id, task_id, idx,
           channel, type, blob
      FROM checkpoint_writes WHERE thread_id = checkpoint_key(p_tenant, p_graph, p_from)
    ON CONFLICT DO NOTHING;
$$;
