-- Up Migration

-- The key under which the checkpointer's tables file a thread: they know no tenant.
CREATE FUNCTION checkpoint_key(p_tenant text, p_graph text, p_thread uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_tenant || '/' || p_graph || '/' || p_thread
$$;

-- JSON as jsonb, with jsonb.ts's marks in the place of what jsonb refuses. An escape is one only
-- after an even number of backslashes.
CREATE FUNCTION marked_jsonb(p_json json) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT regexp_replace(
    replace(p_json::text, chr(57344), chr(57344) || 'e000'),
    '(?<!\\)((?:\\\\)*)\\u(0000|d[89a-f][0-9a-f]{2})', '\1' || chr(57344) || '\2', 'g'
  )::jsonb
$$;

CREATE FUNCTION delete_checkpoints(p_key text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM checkpoint_writes WHERE thread_id = p_key;
  DELETE FROM checkpoint_blobs WHERE thread_id = p_key;
  DELETE FROM checkpoints WHERE thread_id = p_key;
$$;

-- Sets a thread's status by what is left to do: 'busy' while a run is active, else p_status
-- (NULL: what it was before).
CREATE FUNCTION settle_thread(p_tenant text, p_graph text, p_thread uuid, p_status text)
RETURNS void LANGUAGE sql AS $$
  UPDATE thread t SET updated_at = now(), settled = coalesce(p_status, t.settled), status = CASE
      WHEN EXISTS (SELECT 1 FROM run r
                   WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
                     AND r.status IN ('pending', 'running')) THEN 'busy'
      ELSE coalesce(p_status, t.settled) END
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread
$$;

-- Deletes a thread and all that belongs to it. Returns the runs that were active on it; NULL if
-- there is no such thread.
CREATE FUNCTION delete_thread(p_tenant text, p_graph text, p_thread uuid) RETURNS uuid[]
LANGUAGE plpgsql AS $$
DECLARE
  active uuid[];
BEGIN
  DELETE FROM thread t
    WHERE t.tenant = p_tenant AND t.graph_id = p_graph AND t.thread_id = p_thread;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  WITH gone AS (
    DELETE FROM run r
      WHERE r.tenant = p_tenant AND r.graph_id = p_graph AND r.thread_id = p_thread
      RETURNING r.run_id, r.status
  ), gone_events AS (
    DELETE FROM run_event e USING gone
      WHERE e.tenant = p_tenant AND e.graph_id = p_graph AND e.run_id = gone.run_id
  )
  SELECT coalesce(array_agg(run_id) FILTER (WHERE status IN ('pending', 'running')), '{}')
    INTO active FROM gone;
  PERFORM delete_checkpoints(checkpoint_key(p_tenant, p_graph, p_thread));
  RETURN active;
END $$;

-- Copies a thread with its checkpoints. Does nothing if there is none.
CREATE FUNCTION copy_thread(p_tenant text, p_graph text, p_from uuid, p_to uuid) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO thread (tenant, graph_id, thread_id, status, settled, metadata, config, "values",
                      interrupts, error)
    SELECT tenant, graph_id, p_to, settled, settled, metadata, config, "values", interrupts, error
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
