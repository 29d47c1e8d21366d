-- Up Migration

-- Whoever touches runs of a stored thread locks the thread first, then the run: never the other
-- way round, or they would wait for each other.

-- Takes back what a run wrote on a thread. On the checkpoint it started from, answers to interrupts
-- and what came of them go: the interrupt waits again.
CREATE FUNCTION undo_run(p_tenant text, p_graph text, p_thread uuid, p_run uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  its_key CONSTANT text := checkpoint_key(p_tenant, p_graph, p_thread);
BEGIN
  WITH undone AS (
    DELETE FROM checkpoints c
      WHERE c.thread_id = its_key AND c.metadata ->> 'run_id' = p_run::text
      RETURNING c.checkpoint_ns, c.checkpoint_id
  )
  DELETE FROM checkpoint_writes w USING undone u
    WHERE w.thread_id = its_key AND w.checkpoint_ns = u.checkpoint_ns
      AND w.checkpoint_id = u.checkpoint_id;
  WITH head AS (
    SELECT DISTINCT ON (c.checkpoint_ns) c.checkpoint_ns, c.checkpoint_id
      FROM checkpoints c WHERE c.thread_id = its_key
      ORDER BY c.checkpoint_ns, c.checkpoint_id DESC
  )
  DELETE FROM checkpoint_writes w USING head h
    WHERE w.thread_id = its_key AND w.checkpoint_ns = h.checkpoint_ns
      AND w.checkpoint_id = h.checkpoint_id
      AND (w.task_id = '00000000-0000-0000-0000-000000000000'
           OR w.channel <> '__interrupt__' AND EXISTS (
             SELECT 1 FROM checkpoint_writes i
               WHERE i.thread_id = its_key AND i.checkpoint_ns = w.checkpoint_ns
                 AND i.checkpoint_id = w.checkpoint_id AND i.task_id = w.task_id
                 AND i.channel = '__interrupt__'));
END $$;

-- Asks runs to stop: one run, or every active run of a thread (p_run NULL). Waiting ones stop here
-- and now; for running ones the request is noted and their worker carries it out.
-- Returns the ids of all runs it touched.
CREATE FUNCTION cancel_runs(
  p_tenant text, p_graph text, p_thread uuid, p_run uuid, p_action text
) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  touched uuid[];
  waiting record;
BEGIN
  PERFORM 1 FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread FOR UPDATE;
  FOR waiting IN
    UPDATE run r SET status = 'interrupted', updated_at = now(), output = '{}'
      WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
        AND (p_run IS NULL OR r.run_id = p_run) AND r.status = 'pending'
      RETURNING r.run_id, r.ephemeral, r.attempt
  LOOP
    touched := touched || waiting.run_id;
    -- It may have been executed before and come back to the queue.
    IF waiting.ephemeral AND waiting.attempt > 0 THEN
      PERFORM delete_checkpoints(checkpoint_key(p_tenant, p_graph, p_thread));
    ELSIF p_action = 'rollback' AND waiting.attempt > 0 THEN
      PERFORM undo_run(p_tenant, p_graph, p_thread, waiting.run_id);
    END IF;
    IF p_action = 'rollback' THEN
      DELETE FROM run r
        WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = waiting.run_id;
    END IF;
  END LOOP;
  WITH running AS (
    UPDATE run r SET cancel_action = p_action
      WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
        AND (p_run IS NULL OR r.run_id = p_run) AND r.status = 'running'
      RETURNING r.run_id
  )
  SELECT touched || array_agg(run_id) INTO touched FROM running;
  PERFORM settle_thread(p_tenant, p_graph, p_thread, NULL);
  RETURN touched;
END $$;

-- Accepts a run on a stored thread. Locks the thread first, so that two requests see each other.
-- Outcome: 'accepted', 'no_thread' or 'busy'. `cancelled` are the runs that the strategy stops.
CREATE FUNCTION accept_run(
  p_tenant text, p_graph text, p_run uuid, p_thread uuid, p_assistant uuid, p_strategy text,
  p_metadata json, p_kwargs json, p_caller json, p_recorded boolean, p_create_thread boolean,
  p_claim uuid, p_lease_ms integer, p_delay_ms bigint,
  OUT outcome text, OUT status text, OUT cancelled uuid[], OUT created_at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
  active integer;
BEGIN
  IF p_create_thread THEN
    INSERT INTO thread (tenant, graph_id, thread_id) VALUES (p_tenant, p_graph, p_thread)
      ON CONFLICT DO NOTHING;
  END IF;
  PERFORM 1 FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread FOR UPDATE;
  IF NOT FOUND THEN
    outcome := 'no_thread';
    RETURN;
  END IF;

  SELECT r.status, r.created_at INTO status, created_at FROM run r
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run;
  IF FOUND THEN  -- a repeated request after a lost answer
    outcome := 'accepted';
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

-- Undoes a run that its worker stopped: what it wrote and its row go, the thread is as before.
-- False if the claim is lost.
CREATE FUNCTION roll_back_run(p_tenant text, p_graph text, p_run uuid, p_claim uuid)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  its_thread uuid;
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
  PERFORM undo_run(p_tenant, p_graph, its_thread, p_run);
  PERFORM settle_thread(p_tenant, p_graph, its_thread, NULL);
  RETURN true;
END $$;

-- Ends a run of a stored thread, if the claim still holds. Returns 'lost' if it does not,
-- 'rolled back' if that was asked for just before, 'queued' if further runs of the thread wait,
-- else 'done'.
CREATE FUNCTION finish_run(
  p_tenant text, p_graph text, p_run uuid, p_claim uuid, p_status text, p_output json,
  p_thread_status text, p_values json, p_interrupts json, p_error json
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  its_thread uuid;
  asked text;
BEGIN
  SELECT r.thread_id INTO its_thread FROM run r
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run;
  PERFORM 1 FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = its_thread FOR UPDATE;
  SELECT r.cancel_action INTO asked FROM run r
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run
      AND r.claim_token = p_claim FOR UPDATE;
  IF NOT FOUND THEN
    RETURN 'lost';
  END IF;
  IF asked = 'rollback' THEN
    PERFORM roll_back_run(p_tenant, p_graph, p_run, p_claim);
    RETURN 'rolled back';
  END IF;
  UPDATE run r SET status = p_status, output = p_output, claim_token = NULL, lease_until = NULL,
      updated_at = now()
    WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.run_id = p_run;
  UPDATE thread t SET "values" = coalesce(p_values, t."values"), interrupts = p_interrupts,
      error = p_error
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = its_thread;
  PERFORM settle_thread(p_tenant, p_graph, its_thread, p_thread_status);
  RETURN (SELECT CASE WHEN t.status = 'busy' THEN 'queued' ELSE 'done' END FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = its_thread);
END $$;
