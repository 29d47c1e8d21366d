import { randomUUID } from "node:crypto";
import type pg from "pg";
import { overConnectionLoss } from "../common/postgres.ts";
import type { Claim } from "./checkpointer.ts";
import type { Scope } from "./scope.ts";
import { jsonb } from "./thread-store.ts";
import type { CommandBody, StreamMode } from "./wire.ts";

export type RunStatus = "pending" | "running" | "success" | "error" | "timeout" | "interrupted";
export type CancelAction = "interrupt" | "rollback";
export type MultitaskStrategy = "reject" | "interrupt" | "rollback" | "enqueue";

/** What a run was asked to do, as stored and as given back in `kwargs`. */
export interface RunArguments {
  input?: unknown;
  command?: CommandBody;
  config: {
    tags?: string[];
    recursion_limit?: number;
    metadata?: Record<string, unknown>;
    configurable: Record<string, unknown>;
  };
  context?: Record<string, unknown>;
  stream_mode: StreamMode[];
  subgraphs: boolean;
  interrupt_before?: string[] | "*";
  interrupt_after?: string[] | "*";
  durability?: "sync" | "async" | "exit";
}

/** Who asked for a run and within which trace; never shown to clients. */
export interface RunCaller {
  subject: string;
  assertion: string;
  trace: Record<string, string>;
}

/** A run as it is accepted. */
export interface NewRun extends Scope {
  runId: string;
  threadId: string;
  assistantId: string;
  /** Its thread exists only for it and goes with it. */
  ephemeral: boolean;
  /** Its events are kept for listeners that come later or on another replica. */
  recorded: boolean;
  multitaskStrategy: MultitaskStrategy;
  metadata: Record<string, unknown>;
  kwargs: RunArguments;
  caller: RunCaller;
}

/** A run that this worker executes now. */
export interface ClaimedRun extends NewRun, Claim {
  attempt: number;
}

/** A stored run, as clients see it. */
export interface StoredRun {
  run_id: string;
  thread_id: string;
  assistant_id: string;
  status: RunStatus;
  metadata: Record<string, unknown>;
  kwargs: RunArguments;
  multitask_strategy: MultitaskStrategy;
  created_at: string;
  updated_at: string;
}

/** What accepting a run came to. `claimed` is set where this worker got to execute it at once. */
export type Acceptance =
  | { outcome: "accepted"; cancelled: string[]; createdAt: Date; claimed?: ClaimedRun }
  | { outcome: "busy" | "no_thread" };

/** How a run ended, as stored with it and its thread. JSON texts where it says so. */
export interface RunEnding {
  status: "success" | "error" | "interrupted";
  /** What `wait` and `join` answer, as JSON. */
  output: string;
  threadStatus: "idle" | "error" | "interrupted";
  /** The thread's values as JSON; null leaves them. */
  threadValues: string | null;
  /** The thread's open interrupts as JSON. */
  interrupts: string;
  /** The thread's error as JSON, or null. */
  error: string | null;
}

/** How long requests and runs wait for a database that restarts, in ms. */
const REQUEST_PATIENCE_MS = 10_000;
const RUN_PATIENCE_MS = 60_000;

/** The runs in PostgreSQL: accepted, claimed under a lease, finished; see decision 8 of the design. */
export class RunStore {
  readonly #pool: pg.Pool;
  readonly #leaseMs: number;

  constructor(pool: pg.Pool, leaseMs: number) {
    this.#pool = pool;
    this.#leaseMs = leaseMs;
  }

  /**
   * Makes a run durable. Idempotent by its id.
   *
   * @param claim Claim it in the same statement, if nothing else runs on its thread.
   */
  async accept(
    run: NewRun,
    options: { claim: boolean; createThread: boolean; delayMs: number },
  ): Promise<Acceptance> {
    const claimToken = options.claim ? randomUUID() : null;
    const row = run.ephemeral
      ? await this.#acceptEphemeral(run, claimToken, options.delayMs)
      : await this.#acceptOnThread(run, claimToken, options);
    if (row.outcome !== "accepted") return { outcome: row.outcome };
    return {
      outcome: "accepted",
      cancelled: row.cancelled ?? [],
      createdAt: row.created_at,
      ...(row.status === "running" &&
        claimToken !== null && { claimed: { ...run, claimToken, attempt: 1 } }),
    };
  }

  async #acceptEphemeral(
    run: NewRun,
    claimToken: string | null,
    delayMs: number,
  ): Promise<AcceptanceRow> {
    const isClaimed = claimToken !== null && delayMs === 0;
    const { rows } = await this.#query<AcceptanceRow>(
      REQUEST_PATIENCE_MS,
      "accept-ephemeral",
      ACCEPT_EPHEMERAL,
      [
        run.tenant,
        run.graphId,
        run.runId,
        run.threadId,
        run.assistantId,
        isClaimed ? "running" : "pending",
        run.recorded,
        run.multitaskStrategy,
        jsonb(run.metadata),
        JSON.stringify(run.kwargs),
        JSON.stringify(run.caller),
        isClaimed ? 1 : 0,
        isClaimed ? claimToken : null,
        isClaimed ? this.#leaseMs : null,
        delayMs,
      ],
    );
    return only(rows);
  }

  async #acceptOnThread(
    run: NewRun,
    claimToken: string | null,
    options: { createThread: boolean; delayMs: number },
  ): Promise<AcceptanceRow> {
    const { rows } = await this.#query<AcceptanceRow>(
      REQUEST_PATIENCE_MS,
      "accept-run",
      "SELECT * FROM accept_run($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14)",
      [
        run.tenant,
        run.graphId,
        run.runId,
        run.threadId,
        run.assistantId,
        run.multitaskStrategy,
        jsonb(run.metadata),
        JSON.stringify(run.kwargs),
        JSON.stringify(run.caller),
        run.recorded,
        options.createThread,
        claimToken,
        this.#leaseMs,
        options.delayMs,
      ],
    );
    return only(rows);
  }

  /** Claims up to `limit` waiting runs of these graphs, oldest first, one a thread. */
  async claim(graphIds: readonly string[], limit: number): Promise<ClaimedRun[]> {
    const { rows } = await this.#query<RunRow>(RUN_PATIENCE_MS, "claim-runs", CLAIM, [
      graphIds,
      limit,
      randomUUID(),
      this.#leaseMs,
    ]);
    return rows.map(claimedRun);
  }

  /**
   * Renews the leases of the runs this worker executes.
   *
   * @returns The runs it still holds, with what was asked of them meanwhile.
   */
  async renew(runs: ClaimedRun[]): Promise<Map<string, CancelAction | null>> {
    const { rows } = await this.#query<{ run_id: string; cancel_action: CancelAction | null }>(
      this.#leaseMs,
      "renew-leases",
      RENEW,
      [
        runs.map((run) => run.tenant),
        runs.map((run) => run.graphId),
        runs.map((run) => run.runId),
        runs.map((run) => run.claimToken),
        this.#leaseMs,
      ],
    );
    return new Map(rows.map((row) => [row.run_id, row.cancel_action]));
  }

  /**
   * Ends a run. `lost`: its lease is gone and the ending is somebody else's. `queued`: further runs
   * of its thread wait.
   */
  async finish(run: ClaimedRun, ending: RunEnding): Promise<"done" | "queued" | "lost"> {
    const own = [run.tenant, run.graphId, run.runId, run.claimToken, ending.status, ending.output];
    if (run.ephemeral) {
      const { rows } = await this.#query(RUN_PATIENCE_MS, "finish-own", FINISH_EPHEMERAL, own);
      return rows.length > 0 ? "done" : "lost";
    }
    const { rows } = await this.#query<{ result: "done" | "queued" | "lost" | null }>(
      RUN_PATIENCE_MS,
      "finish-run",
      "SELECT finish_run($1,$2,$3,$4,$5,$6,$7,$8,$9,$10) AS result",
      [...own, ending.threadStatus, ending.threadValues, ending.interrupts, ending.error],
    );
    return only(rows).result ?? "done";
  }

  /** Undoes a run that was cancelled with `rollback`. False if its lease was lost. */
  async rollBack(run: ClaimedRun): Promise<boolean> {
    const { rows } = await this.#query<{ undone: boolean }>(
      RUN_PATIENCE_MS,
      "roll-back-run",
      "SELECT roll_back_run($1,$2,$3,$4) AS undone",
      [run.tenant, run.graphId, run.runId, run.claimToken],
    );
    return only(rows).undone;
  }

  /** Gives a run back to the queue, e.g. when this worker has to stop. */
  async release(run: ClaimedRun): Promise<void> {
    await this.#query(5_000, "release-run", RELEASE, [
      run.tenant,
      run.graphId,
      run.runId,
      run.claimToken,
    ]);
  }

  /** Asks one run of a thread, or all of its active ones, to stop. Returns the ids it reached. */
  async cancel(
    scope: Scope,
    threadId: string,
    runId: string | null,
    action: CancelAction,
  ): Promise<string[]> {
    const { rows } = await this.#query<{ touched: string[] | null }>(
      REQUEST_PATIENCE_MS,
      "cancel-runs",
      "SELECT cancel_runs($1,$2,$3,$4,$5) AS touched",
      [scope.tenant, scope.graphId, threadId, runId, action],
    );
    return only(rows).touched ?? [];
  }

  /** Runs whose worker is gone go back to the queue, or end after too many attempts. */
  async reap(maxAttempts: number): Promise<{ runId: string; status: RunStatus }[]> {
    const output = {
      __error__: {
        error: "WorkerLost",
        message: `The run was started ${maxAttempts} times and no worker survived it.`,
      },
    };
    const { rows } = await this.#query<{ run_id: string; status: RunStatus }>(
      REQUEST_PATIENCE_MS,
      "reap-runs",
      "SELECT run_id, status FROM reap_runs($1, $2)",
      [maxAttempts, JSON.stringify(output)],
    );
    return rows.map((row) => ({ runId: row.run_id, status: row.status }));
  }

  /** Forgets outputs, ephemeral runs and events that nobody will ask for any more. */
  async purge(): Promise<void> {
    for (const [name, text] of Object.entries(PURGES)) {
      await this.#query(REQUEST_PATIENCE_MS, name, text, []);
    }
  }

  async get(scope: Scope, threadId: string | null, runId: string): Promise<StoredRun | undefined> {
    const { rows } = await this.#query<StoredRun>(REQUEST_PATIENCE_MS, "get-run", GET, [
      scope.tenant,
      scope.graphId,
      runId,
      threadId,
    ]);
    return rows[0];
  }

  /**
   * The state of a run and, once it ended, what it answered: its own output while that is kept,
   * later the values of its thread.
   */
  async outcome(
    scope: Scope,
    threadId: string | null,
    runId: string,
  ): Promise<{ status: RunStatus; output: string | null } | undefined> {
    const { rows } = await this.#query<{ status: RunStatus; output: string | null }>(
      REQUEST_PATIENCE_MS,
      "run-outcome",
      OUTCOME,
      [scope.tenant, scope.graphId, runId, threadId],
    );
    return rows[0];
  }

  async list(
    scope: Scope,
    threadId: string,
    filter: { status: RunStatus | undefined; limit: number; offset: number },
  ): Promise<StoredRun[]> {
    const { rows } = await this.#query<StoredRun>(REQUEST_PATIENCE_MS, "list-runs", LIST, [
      scope.tenant,
      scope.graphId,
      threadId,
      filter.status ?? null,
      filter.limit,
      filter.offset,
    ]);
    return rows;
  }

  /** Deletes a run that is over. False if it still runs or waits; undefined if there is none. */
  async delete(scope: Scope, threadId: string, runId: string): Promise<boolean | undefined> {
    const run = await this.get(scope, threadId, runId);
    if (run === undefined) return undefined;
    const { rowCount } = await this.#query(REQUEST_PATIENCE_MS, "delete-run", DELETE, [
      scope.tenant,
      scope.graphId,
      runId,
      threadId,
    ]);
    return rowCount === 1;
  }

  #query<Row extends pg.QueryResultRow>(
    patienceMs: number,
    name: string,
    text: string,
    values: unknown[],
  ): Promise<pg.QueryResult<Row>> {
    return overConnectionLoss(patienceMs, () => this.#pool.query<Row>({ name, text, values }));
  }
}

interface AcceptanceRow {
  outcome: "accepted" | "busy" | "no_thread";
  status: RunStatus;
  cancelled: string[] | null;
  created_at: Date;
}

interface RunRow {
  tenant: string;
  graph_id: string;
  run_id: string;
  thread_id: string;
  assistant_id: string;
  ephemeral: boolean;
  recorded: boolean;
  multitask_strategy: MultitaskStrategy;
  metadata: Record<string, unknown>;
  kwargs: RunArguments;
  caller: RunCaller;
  attempt: number;
  claim_token: string;
}

function claimedRun(row: RunRow): ClaimedRun {
  return {
    tenant: row.tenant,
    graphId: row.graph_id,
    runId: row.run_id,
    threadId: row.thread_id,
    assistantId: row.assistant_id,
    ephemeral: row.ephemeral,
    recorded: row.recorded,
    multitaskStrategy: row.multitask_strategy,
    metadata: row.metadata,
    kwargs: row.kwargs,
    caller: row.caller,
    attempt: row.attempt,
    claimToken: row.claim_token,
  };
}

function only<Row>(rows: Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new Error("The database answered no row where there must be one.");
  return row;
}

// Idempotent: a repeated insert finds the row of the first try, which holds the same claim.
const ACCEPT_EPHEMERAL = `
  INSERT INTO run (tenant, graph_id, run_id, thread_id, assistant_id, status, ephemeral, recorded,
                   multitask_strategy, metadata, kwargs, caller, attempt, claim_token, lease_until,
                   available_at)
    VALUES ($1, $2, $3, $4, $5, $6, true, $7, $8, $9, $10, $11, $12, $13,
            now() + $14::integer * interval '1 ms', now() + $15::integer * interval '1 ms')
    ON CONFLICT (tenant, graph_id, run_id) DO UPDATE SET recorded = EXCLUDED.recorded
    RETURNING 'accepted' AS outcome, status, NULL AS cancelled, created_at`;

const CLAIM = `
  WITH next AS (
    SELECT r.tenant, r.graph_id, r.run_id FROM run r
      WHERE r.status = 'pending' AND r.available_at <= now() AND r.graph_id = ANY($1)
        AND NOT EXISTS (
          SELECT 1 FROM run o
            WHERE o.tenant = r.tenant AND o.graph_id = r.graph_id AND o.thread_id = r.thread_id
              AND (o.status = 'running'
                   OR o.status = 'pending' AND o.available_at <= now()
                      AND (o.created_at, o.run_id) < (r.created_at, r.run_id)))
      ORDER BY r.created_at LIMIT $2 FOR UPDATE OF r SKIP LOCKED
  )
  UPDATE run r SET status = 'running', attempt = r.attempt + 1, claim_token = $3,
      lease_until = now() + $4::integer * interval '1 ms', updated_at = now()
    FROM next n
    WHERE r.tenant = n.tenant AND r.graph_id = n.graph_id AND r.run_id = n.run_id
    RETURNING r.*`;

const RENEW = `
  UPDATE run r SET lease_until = now() + $5::integer * interval '1 ms'
    FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[])
      AS held(tenant, graph_id, run_id, claim_token)
    WHERE r.tenant = held.tenant AND r.graph_id = held.graph_id AND r.run_id = held.run_id
      AND r.claim_token = held.claim_token
    RETURNING r.run_id, r.cancel_action`;

const FINISH_EPHEMERAL = `
  WITH done AS (
    UPDATE run SET status = $5, output = $6, claim_token = NULL, lease_until = NULL,
        updated_at = now()
      WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND claim_token = $4
      RETURNING thread_id
  )
  SELECT delete_checkpoints(checkpoint_key($1, $2, thread_id)) FROM done`;

const RELEASE = `
  UPDATE run SET status = 'pending', attempt = attempt - 1, claim_token = NULL, lease_until = NULL,
      updated_at = now()
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND claim_token = $4`;

const COLUMNS = `run_id, thread_id, assistant_id, status, metadata, kwargs, multitask_strategy,
  created_at, updated_at`;
const GET = `
  SELECT ${COLUMNS} FROM run
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND ($4::uuid IS NULL OR thread_id = $4)`;
const LIST = `
  SELECT ${COLUMNS} FROM run
    WHERE tenant = $1 AND graph_id = $2 AND thread_id = $3 AND ($4::text IS NULL OR status = $4)
    ORDER BY created_at DESC LIMIT $5 OFFSET $6`;
const OUTCOME = `
  SELECT r.status, coalesce(r.output::text, t."values"::text) AS output
    FROM run r LEFT JOIN thread t
      ON t.tenant = r.tenant AND t.graph_id = r.graph_id AND t.thread_id = r.thread_id
    WHERE r.tenant = $1 AND r.graph_id = $2 AND r.run_id = $3
      AND ($4::uuid IS NULL OR r.thread_id = $4)`;
const DELETE = `
  DELETE FROM run
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND thread_id = $4
      AND status NOT IN ('pending', 'running')`;

const PURGES = {
  "purge-ephemeral": `
    DELETE FROM run WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM run
        WHERE output IS NOT NULL AND ephemeral AND updated_at < now() - interval '10 minutes'
        LIMIT 10000))`,
  "purge-outputs": `
    UPDATE run SET output = NULL WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM run
        WHERE output IS NOT NULL AND NOT ephemeral AND updated_at < now() - interval '10 minutes'
        LIMIT 10000))`,
  "purge-events": `
    DELETE FROM run_event WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM run_event WHERE created_at < now() - interval '1 hour' LIMIT 10000))`,
};
