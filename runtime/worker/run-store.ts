import { randomUUID } from "node:crypto";
import type pg from "pg";
import { inTransaction, overConnectionLoss } from "../common/postgres.ts";
import type { CancelAction, ClaimedRun, NewRun, RunStatus, StoredRun } from "./run.ts";
import * as sql from "./run-statements.ts";
import { checkpointKey, type Scope } from "./scope.ts";

/** What accepting a run came to. `claimed` is set where this worker got to execute it at once. */
export type Acceptance =
  | { outcome: "accepted"; cancelled: string[]; createdAt: Date; claimed?: ClaimedRun }
  | { outcome: "busy" | "no_thread" };

/** How long a request waits for a database that restarts, in ms. */
const PATIENCE_MS = 10_000;

/** The runs in PostgreSQL, as requests see them. Their execution is run-claims.ts's. */
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
    const row = await overConnectionLoss(PATIENCE_MS, () =>
      this.#accept(this.#pool, run, { ...options, claimToken }),
    );
    if (row.outcome !== "accepted") return { outcome: row.outcome };
    return {
      outcome: "accepted",
      cancelled: row.cancelled ?? [],
      createdAt: row.created_at,
      ...(row.status === "running" &&
        claimToken !== null && { claimed: { ...run, claimToken, attempt: 1, isSuspect: false } }),
    };
  }

  /**
   * Makes runs durable that each have a new thread of their own: all of them or none. Idempotent by
   * their ids.
   *
   * @returns Each with the time at which it was created.
   */
  async acceptAll(
    runs: { run: NewRun; delayMs: number }[],
  ): Promise<{ run: NewRun; createdAt: Date }[]> {
    return overConnectionLoss(PATIENCE_MS, () =>
      inTransaction(this.#pool, async (client) => {
        const accepted: { run: NewRun; createdAt: Date }[] = [];
        for (const { run, delayMs } of runs) {
          const options = { claimToken: null, createThread: true, delayMs };
          const { created_at: createdAt } = await this.#accept(client, run, options);
          accepted.push({ run, createdAt });
        }
        return accepted;
      }),
    );
  }

  #accept(
    on: pg.Pool | pg.PoolClient,
    run: NewRun,
    options: { claimToken: string | null; createThread: boolean; delayMs: number },
  ): Promise<AcceptanceRow> {
    return run.ephemeral
      ? this.#acceptEphemeral(on, run, options)
      : this.#acceptOnThread(on, run, options);
  }

  async #acceptEphemeral(
    on: pg.Pool | pg.PoolClient,
    run: NewRun,
    { claimToken, delayMs }: { claimToken: string | null; delayMs: number },
  ): Promise<AcceptanceRow> {
    const isClaimed = claimToken !== null && delayMs === 0;
    const values = [
      run.tenant,
      run.graphId,
      run.runId,
      run.threadId,
      run.assistantId,
      isClaimed ? "running" : "pending",
      run.recorded,
      run.multitaskStrategy,
      JSON.stringify(run.metadata),
      JSON.stringify(run.kwargs),
      JSON.stringify(run.caller),
      isClaimed ? 1 : 0,
      isClaimed ? claimToken : null,
      isClaimed ? this.#leaseMs : null,
      delayMs,
    ];
    const statement = { name: "accept-ephemeral", text: sql.ACCEPT_EPHEMERAL, values };
    const { rows } = await on.query<AcceptanceRow>(statement);
    return only(rows);
  }

  async #acceptOnThread(
    on: pg.Pool | pg.PoolClient,
    run: NewRun,
    options: { claimToken: string | null; createThread: boolean; delayMs: number },
  ): Promise<AcceptanceRow> {
    const values = [
      run.tenant,
      run.graphId,
      run.runId,
      run.threadId,
      run.assistantId,
      run.multitaskStrategy,
      JSON.stringify(run.metadata),
      JSON.stringify(run.kwargs),
      JSON.stringify(run.caller),
      run.recorded,
      options.createThread,
      options.claimToken,
      this.#leaseMs,
      options.delayMs,
    ];
    const statement = { name: "accept-run", text: sql.ACCEPT_ON_THREAD, values };
    const { rows } = await on.query<AcceptanceRow>(statement);
    return only(rows);
  }

  /** Asks one run of a thread, or all of its active ones, to stop. Returns the ids it reached. */
  async cancel(
    scope: Scope,
    threadId: string,
    runId: string | null,
    action: CancelAction,
  ): Promise<string[]> {
    const { rows } = await this.#query<{ touched: string[] | null }>("cancel-runs", sql.CANCEL, [
      scope.tenant,
      scope.graphId,
      threadId,
      runId,
      action,
    ]);
    return only(rows).touched ?? [];
  }

  /** The active runs of a scope, or those among them that a filter names. */
  async active(
    scope: Scope,
    filter: { statuses: RunStatus[]; threadId: string | null; runIds: string[] | null },
  ): Promise<{ runId: string; threadId: string }[]> {
    const { rows } = await this.#query<{ run_id: string; thread_id: string }>(
      "active-runs",
      sql.ACTIVE,
      [scope.tenant, scope.graphId, filter.statuses, filter.threadId, filter.runIds],
    );
    return rows.map((row) => ({ runId: row.run_id, threadId: row.thread_id }));
  }

  async get(scope: Scope, threadId: string | null, runId: string): Promise<StoredRun | undefined> {
    const { rows } = await this.#query<StoredRun>("get-run", sql.GET, [
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
      "run-outcome",
      sql.OUTCOME,
      [scope.tenant, scope.graphId, runId, threadId],
    );
    return rows[0];
  }

  /** Whether a thread has a checkpoint in a namespace: the one of this id, or any without an id. */
  async hasCheckpoint(
    scope: Scope,
    threadId: string,
    ns: string,
    id?: string | null,
  ): Promise<boolean> {
    const { rows } = await this.#query("has-checkpoint", sql.HAS_CHECKPOINT, [
      checkpointKey(scope, threadId),
      ns,
      id ?? null,
    ]);
    return rows.length > 0;
  }

  async list(
    scope: Scope,
    threadId: string,
    filter: { status: RunStatus | undefined; limit: number; offset: number },
  ): Promise<StoredRun[]> {
    const { rows } = await this.#query<StoredRun>("list-runs", sql.LIST, [
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
    const { rowCount } = await this.#query("delete-run", sql.DELETE, [
      scope.tenant,
      scope.graphId,
      runId,
      threadId,
    ]);
    return rowCount === 1;
  }

  #query<Row extends pg.QueryResultRow>(
    name: string,
    text: string,
    values: unknown[],
  ): Promise<pg.QueryResult<Row>> {
    return overConnectionLoss(PATIENCE_MS, () => this.#pool.query<Row>({ name, text, values }));
  }
}

interface AcceptanceRow {
  outcome: "accepted" | "busy" | "no_thread";
  status: RunStatus;
  cancelled: string[] | null;
  created_at: Date;
}

function only<Row>(rows: Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new Error("The database answered no row where there must be one.");
  return row;
}
