import { randomUUID } from "node:crypto";
import type pg from "pg";
import { overConnectionLoss } from "../common/postgres.ts";
import type {
  CancelAction,
  ClaimedRun,
  MultitaskStrategy,
  RunArguments,
  RunCaller,
  RunEnding,
} from "./run.ts";
import * as sql from "./run-statements.ts";

/** How long a run waits for a database that restarts, in ms. */
const PATIENCE_MS = 60_000;

/** What storing an end came to. `lost`: the lease is gone and the ending is somebody else's. */
export type FinishResult = "done" | "queued" | "lost" | "rolled back";

/**
 * The execution of runs, in PostgreSQL: claimed under a lease, renewed, ended. Every statement names
 * the claim, so that a worker that lost its lease changes nothing; see decision 8 of the design.
 */
export class RunClaims {
  readonly #pool: pg.Pool;
  readonly #leaseMs: number;

  constructor(pool: pg.Pool, leaseMs: number) {
    this.#pool = pool;
    this.#leaseMs = leaseMs;
  }

  /**
   * Claims up to `limit` waiting runs of these graphs, oldest first, one a thread.
   *
   * @param takesSuspect One of them may be a suspect: a run that was lost with its worker before and
   *   may be why.
   */
  async claim(
    graphIds: readonly string[],
    limit: number,
    takesSuspect: boolean,
  ): Promise<ClaimedRun[]> {
    const claimToken = randomUUID();
    const values = [graphIds, limit, claimToken, this.#leaseMs, takesSuspect];
    let mayHaveClaimed = false;
    const rows = await overConnectionLoss(PATIENCE_MS, async () => {
      // The first try may have been committed before its answer was lost.
      if (mayHaveClaimed) {
        const claimed = await this.#pool.query<RunRow>(sql.CLAIMED, [claimToken]);
        if (claimed.rows.length > 0) return claimed.rows;
      }
      mayHaveClaimed = true;
      const statement = { name: "claim-runs", text: sql.CLAIM, values };
      return (await this.#pool.query<RunRow>(statement)).rows;
    });
    return rows.map(claimedRun);
  }

  /**
   * Renews the leases of the runs this worker executes.
   *
   * @returns The runs it still holds, with what was asked of them meanwhile.
   */
  async renew(runs: ClaimedRun[]): Promise<Map<ClaimedRun, CancelAction | null>> {
    const { rows } = await this.#query<RenewedRow>(this.#leaseMs, "renew-leases", sql.RENEW, [
      runs.map((run) => run.tenant),
      runs.map((run) => run.graphId),
      runs.map((run) => run.runId),
      runs.map((run) => run.claimToken),
      this.#leaseMs,
    ]);
    const renewed = new Map(rows.map((row) => [`${row.run_id} ${row.claim_token}`, row]));
    return new Map(
      runs.flatMap((run) => {
        const row = renewed.get(`${run.runId} ${run.claimToken}`);
        return row === undefined ? [] : [[run, row.cancel_action] as const];
      }),
    );
  }

  /**
   * Ends a run. `lost`: its lease is gone and the ending is somebody else's. `rolled back`: that was
   * asked for before it ended. `queued`: further runs of its thread wait.
   */
  async finish(run: ClaimedRun, ending: RunEnding): Promise<FinishResult> {
    const own = [run.tenant, run.graphId, run.runId, run.claimToken, ending.status, ending.output];
    if (run.ephemeral) {
      const { rows } = await this.#query(PATIENCE_MS, "finish-own", sql.FINISH_EPHEMERAL, own);
      return rows.length > 0 ? "done" : "lost";
    }
    const { rows } = await this.#query<{ result: FinishResult | null }>(
      PATIENCE_MS,
      "finish-run",
      sql.FINISH_ON_THREAD,
      [...own, ending.threadStatus, ending.threadValues, ending.interrupts, ending.error],
    );
    return only(rows).result ?? "done";
  }

  /** Undoes a run that was cancelled with `rollback`. False if its lease was lost. */
  async rollBack(run: ClaimedRun): Promise<boolean> {
    const { rows } = await this.#query<{ undone: boolean }>(
      PATIENCE_MS,
      "roll-back-run",
      sql.ROLL_BACK,
      [run.tenant, run.graphId, run.runId, run.claimToken],
    );
    return only(rows).undone;
  }

  /** Gives a run back to the queue, e.g. when this worker has to stop. */
  async release(run: ClaimedRun): Promise<void> {
    await this.#query(5_000, "release-run", sql.RELEASE, [
      run.tenant,
      run.graphId,
      run.runId,
      run.claimToken,
    ]);
  }

  /** Ends a run's lease, so that {@link reap} finds at once what this worker leaves behind. */
  async abandon(run: ClaimedRun): Promise<void> {
    await this.#query(5_000, "abandon-run", sql.ABANDON, [
      run.tenant,
      run.graphId,
      run.runId,
      run.claimToken,
    ]);
  }

  /** Runs whose worker is gone go back to the queue, or end after too many attempts. */
  async reap(maxAttempts: number): Promise<{ runId: string; fate: "pending" | "ended" }[]> {
    const error = {
      error: "WorkerLost",
      message: `The run was started ${maxAttempts} times and no worker survived it.`,
    };
    const { rows } = await this.#query<{ lost_run: string; fate: "pending" | "ended" }>(
      PATIENCE_MS,
      "reap-runs",
      sql.REAP,
      [maxAttempts, JSON.stringify(error)],
    );
    return rows.map((row) => ({ runId: row.lost_run, fate: row.fate }));
  }

  /** Forgets outputs, ephemeral runs and events that nobody will ask for any more. */
  async purge(): Promise<void> {
    for (const [name, text] of Object.entries(sql.PURGES)) {
      let purged: number | null;
      do {
        ({ rowCount: purged } = await this.#query(PATIENCE_MS, name, text, []));
      } while (purged === sql.PURGE_LIMIT);
    }
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

interface RenewedRow {
  run_id: string;
  claim_token: string;
  cancel_action: CancelAction | null;
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
  released: number;
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
    isSuspect: row.attempt - 1 - row.released >= sql.SUSPECT_LOSSES,
    claimToken: row.claim_token,
  };
}

function only<Row>(rows: Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new Error("The database answered no row where there must be one.");
  return row;
}
