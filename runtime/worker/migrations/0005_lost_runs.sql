-- Up Migration

-- Carries out the end of a run whose worker is gone: as it was asked to stop, or as failed with
-- p_error. Its row and its thread are locked.
CREATE OR REPLACE FUNCTION end_lost_run(p_run run, p_error json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  is_failed CONSTANT boolean := p_run.cancel_action IS NULL;
BEGIN
  IF p_run.cancel_action = 'rollback' AND NOT p_run.ephemeral THEN
    PERFORM roll_back_run(p_run.tenant, p_run.graph_id, p_run.run_id, p_run.claim_token);
    RETURN;
  END IF;
  UPDATE run r SET claim_token = NULL, lease_until = NULL, updated_at = now(),
      status = CASE WHEN is_failed THEN 'error' ELSE 'interrupted' END,
      output = CASE WHEN is_failed THEN json_build_object('__error__', p_error) ELSE '{}' END
    WHERE r.tenant = p_run.tenant AND r.graph_id = p_run.graph_id AND r.run_id = p_run.run_id;
  IF p_run.ephemeral THEN
    PERFORM delete_checkpoints(checkpoint_key(p_run.tenant, p_run.graph_id, p_run.thread_id));
  ELSE
    UPDATE thread t SET error = CASE WHEN is_failed THEN p_error END
      WHERE t.tenant = p_run.tenant AND t.graph_id = p_run.graph_id
        AND t.thread_id = p_run.thread_id;
    PERFORM settle_thread(p_run.tenant, p_run.graph_id, p_run.thread_id,
                          CASE WHEN is_failed THEN 'error' ELSE 'interrupted' END);
  END IF;
END $$;

-- Puts runs whose lease is over back into the queue, or ends those that were tried often enough.
-- Returns what became of each: 'pending' or 'ended'.
CREATE OR REPLACE FUNCTION reap_runs(p_max_attempts integer, p_error json)
RETURNS TABLE (lost_run uuid, fate text) LANGUAGE plpgsql AS $$
DECLARE
  candidate record;
  lost run;
BEGIN
  FOR candidate IN
    SELECT r.tenant, r.graph_id, r.run_id, r.thread_id, r.ephemeral FROM run r
      WHERE r.status = 'running' AND r.lease_until < now()
  LOOP
    -- A locked one is somebody's at this moment: next time.
    IF NOT candidate.ephemeral THEN
      PERFORM 1 FROM thread t
        WHERE t.tenant = candidate.tenant AND t.graph_id = candidate.graph_id
          AND t.thread_id = candidate.thread_id FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
    END IF;
    SELECT r.* INTO lost FROM run r
      WHERE r.tenant = candidate.tenant AND r.graph_id = candidate.graph_id
        AND r.run_id = candidate.run_id
        AND r.status = 'running' AND r.lease_until < now() FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    lost_run := lost.run_id;
    IF lost.cancel_action IS NOT NULL OR lost.attempt - lost.released >= p_max_attempts THEN
      PERFORM end_lost_run(lost, p_error);
      fate := 'ended';
    ELSE
      UPDATE run r SET claim_token = NULL, lease_until = NULL, updated_at = now(),
          status = 'pending'
        WHERE r.tenant = lost.tenant AND r.graph_id = lost.graph_id AND r.run_id = lost.run_id;
      fate := 'pending';
    END IF;
    RETURN NEXT;
  END LOOP;
END $$;
