/* The statements of run-store.ts. What touches a thread as well is a function of the database. */

export const ACCEPT_ON_THREAD =
  "SELECT * FROM accept_run($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14)";

// Idempotent: a repeated insert finds the row of the first try, which holds the same claim.
export const ACCEPT_EPHEMERAL = `
  INSERT INTO run (tenant, graph_id, run_id, thread_id, assistant_id, status, ephemeral, recorded,
                   multitask_strategy, metadata, kwargs, caller, attempt, claim_token, lease_until,
                   available_at)
    VALUES ($1, $2, $3, $4, $5, $6, true, $7, $8, $9, $10, $11, $12, $13,
            now() + $14::integer * interval '1 ms', now() + $15::bigint * interval '1 ms')
    ON CONFLICT (tenant, graph_id, run_id) DO UPDATE SET recorded = EXCLUDED.recorded
    RETURNING 'accepted' AS outcome, status, NULL AS cancelled, created_at`;

// A run that was started before goes on before any other of its thread is started.
const WAITING = `
  SELECT r.tenant, r.graph_id, r.run_id FROM run r
    WHERE r.status = 'pending' AND r.available_at <= now() AND r.graph_id = ANY($1)
      AND NOT EXISTS (
        SELECT 1 FROM run o
          WHERE o.tenant = r.tenant AND o.graph_id = r.graph_id AND o.thread_id = r.thread_id
            AND (o.status = 'running'
                 OR o.status = 'pending' AND o.available_at <= now()
                    AND (o.attempt = 0, o.created_at, o.run_id)
                        < (r.attempt = 0, r.created_at, r.run_id)))`;

/** Losing its worker so often makes a run a suspect: it may be why the worker is lost. */
export const SUSPECT_LOSSES = 2;

// $5: may a suspect be among them? One at most.
export const CLAIM = `
  WITH suspect AS (
    ${WAITING} AND $5::boolean AND r.attempt - r.released >= ${SUSPECT_LOSSES}
      ORDER BY r.created_at LIMIT 1 FOR UPDATE OF r SKIP LOCKED
  ), next AS (
    ${WAITING} AND r.attempt - r.released < ${SUSPECT_LOSSES}
      ORDER BY r.created_at LIMIT $2::integer - (SELECT count(*) FROM suspect)
      FOR UPDATE OF r SKIP LOCKED
  )
  UPDATE run r SET status = 'running', attempt = r.attempt + 1, claim_token = $3,
      lease_until = now() + $4::integer * interval '1 ms', updated_at = now()
    FROM (SELECT * FROM suspect UNION ALL SELECT * FROM next) n
    WHERE r.tenant = n.tenant AND r.graph_id = n.graph_id AND r.run_id = n.run_id
    RETURNING r.*`;

export const CLAIMED = "SELECT * FROM run WHERE status = 'running' AND claim_token = $1";

export const RENEW = `
  UPDATE run r SET lease_until = now() + $5::integer * interval '1 ms'
    FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[])
      AS held(tenant, graph_id, run_id, claim_token)
    WHERE r.tenant = held.tenant AND r.graph_id = held.graph_id AND r.run_id = held.run_id
      AND r.claim_token = held.claim_token
    RETURNING r.run_id, r.claim_token, r.cancel_action`;

export const FINISH_ON_THREAD = "SELECT finish_run($1,$2,$3,$4,$5,$6,$7,$8,$9,$10) AS result";

export const FINISH_EPHEMERAL = `
  WITH done AS (
    UPDATE run SET status = $5, output = $6, claim_token = NULL, lease_until = NULL,
        updated_at = now()
      WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND claim_token = $4
      RETURNING thread_id
  )
  SELECT delete_checkpoints(checkpoint_key($1, $2, thread_id)) FROM done`;

export const ROLL_BACK = "SELECT roll_back_run($1,$2,$3,$4) AS undone";

// One that was asked to stop meanwhile is left to the reaper, which ends it. It keeps its claim, so a
// repeated statement finds it again: only what goes back to the queue counts.
export const RELEASE = `
  UPDATE run SET released = released + (cancel_action IS NULL)::integer, updated_at = now(),
      status = CASE WHEN cancel_action IS NULL THEN 'pending' ELSE status END,
      claim_token = CASE WHEN cancel_action IS NULL THEN NULL ELSE claim_token END,
      lease_until = CASE WHEN cancel_action IS NULL THEN NULL ELSE now() END
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND claim_token = $4
      AND status = 'running'`;

export const ABANDON = `
  UPDATE run SET lease_until = now()
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND claim_token = $4
      AND status = 'running'`;

export const CANCEL = "SELECT cancel_runs($1,$2,$3,$4,$5) AS touched";

export const ACTIVE = `
  SELECT run_id, thread_id FROM run
    WHERE tenant = $1 AND graph_id = $2 AND status = ANY($3::text[])
      AND ($4::uuid IS NULL OR thread_id = $4) AND ($5::uuid[] IS NULL OR run_id = ANY($5))`;

export const REAP = "SELECT lost_run, fate FROM reap_runs($1, $2)";

const COLUMNS = `run_id, thread_id, assistant_id, status, metadata, kwargs, multitask_strategy,
  created_at, updated_at`;

export const GET = `
  SELECT ${COLUMNS} FROM run
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND ($4::uuid IS NULL OR thread_id = $4)`;

export const LIST = `
  SELECT ${COLUMNS} FROM run
    WHERE tenant = $1 AND graph_id = $2 AND thread_id = $3 AND ($4::text IS NULL OR status = $4)
    ORDER BY created_at DESC, run_id DESC LIMIT $5 OFFSET $6`;

export const HAS_CHECKPOINT = `
  SELECT 1 FROM checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2
    AND ($3::text IS NULL OR checkpoint_id = $3) LIMIT 1`;

export const OUTCOME = `
  SELECT r.status, coalesce(r.output::text, t."values"::text) AS output
    FROM run r LEFT JOIN thread t
      ON t.tenant = r.tenant AND t.graph_id = r.graph_id AND t.thread_id = r.thread_id
    WHERE r.tenant = $1 AND r.graph_id = $2 AND r.run_id = $3
      AND ($4::uuid IS NULL OR r.thread_id = $4)`;

export const DELETE = `
  DELETE FROM run
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND thread_id = $4
      AND status NOT IN ('pending', 'running')`;

/** So many rows a statement: a longer one would hold back vacuum and others. */
export const PURGE_LIMIT = 10_000;
// A run's error is kept as long as the run: the thread's values could not stand in for it.
export const PURGES = {
  "purge-ephemeral": `
    DELETE FROM run WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM run
        WHERE output IS NOT NULL AND ephemeral AND updated_at < now() - interval '10 minutes'
        LIMIT ${PURGE_LIMIT}))`,
  "purge-outputs": `
    UPDATE run SET output = NULL WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM run
        WHERE output IS NOT NULL AND NOT ephemeral AND status <> 'error'
          AND updated_at < now() - interval '10 minutes'
        LIMIT ${PURGE_LIMIT}))`,
  "purge-events": `
    DELETE FROM run_event WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM run_event WHERE created_at < now() - interval '1 hour' LIMIT ${PURGE_LIMIT}))`,
};
