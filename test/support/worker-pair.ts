import pg from "pg";
import { eventually } from "./eventually.ts";
import { type HeldLock, lockRuns, lockThread, sharedPostgres } from "./shared-worker.ts";
import { Journal, TestWorker } from "./worker.ts";

/** Short enough for tests, long enough for a busy machine. */
export const IMPATIENT = { LEASE_MS: "1500", HEARTBEAT_MS: "300", REAPER_MS: "200" };

/** Two replicas of a worker on a database of their own, to be started and hurt as a test likes. */
export class WorkerPair {
  readonly a: TestWorker;
  readonly b: TestWorker;
  readonly journal: Journal;
  readonly #pool: pg.Pool;

  private constructor(a: TestWorker, b: TestWorker, journal: Journal, pool: pg.Pool) {
    this.a = a;
    this.b = b;
    this.journal = journal;
    this.#pool = pool;
  }

  /** @param environment Of both, and of each. */
  static async prepare(
    environment: Record<string, string> = {},
    ofA: Record<string, string> = {},
    ofB: Record<string, string> = {},
  ): Promise<WorkerPair> {
    const database = await (await sharedPostgres()).createDatabase();
    const pool = new pg.Pool({ connectionString: database.url() });
    pool.on("error", () => {}); // The server may be stopped before its idle clients.
    const both = { ...IMPATIENT, ...environment };
    return new WorkerPair(
      new TestWorker(database, { ...both, ...ofA }),
      new TestWorker(database, { ...both, ...ofB }),
      await Journal.create(),
      pool,
    );
  }

  query(text: string, values: unknown[] = []): Promise<pg.QueryResult> {
    return this.#pool.query(text, values);
  }

  lockThread(threadId: string): Promise<HeldLock> {
    return lockThread(this.#pool, threadId);
  }

  lockRuns(): Promise<HeldLock> {
    return lockRuns(this.#pool);
  }

  /** As a test expects them: the first one runs, the second one does not. */
  async ready(): Promise<void> {
    await this.b.kill();
    if (!this.a.isRunning) await this.a.start();
  }

  /** Waits until a run's checkpoint of a step is in the database. */
  async checkpointed(runId: string, step: number): Promise<void> {
    await eventually(`checkpoint ${step} of ${runId} is written`, async () => {
      const { rowCount } = await this.query(
        "SELECT 1 FROM worker.checkpoints WHERE metadata @> $1",
        [JSON.stringify({ run_id: runId, step })],
      );
      return rowCount !== 0;
    });
  }

  /** Everything that is stored of a run, to see whether anything changes. */
  async stored(runId: string): Promise<unknown> {
    const { rows } = await this.query(
      `SELECT (SELECT json_agg(e ORDER BY id) FROM worker.run_event e WHERE run_id = $1) AS events,
              (SELECT json_agg(c ORDER BY checkpoint_id) FROM worker.checkpoints c
                 WHERE metadata ->> 'run_id' = $1::text) AS checkpoints,
              (SELECT count(*) FROM worker.checkpoint_writes) AS writes,
              (SELECT json_agg(r) FROM worker.run r WHERE run_id = $1) AS run,
              (SELECT json_agg(t) FROM worker.thread t JOIN worker.run r USING (thread_id)
                 WHERE run_id = $1) AS threads`,
      [runId],
    );
    return rows[0];
  }

  async stop(): Promise<void> {
    await Promise.all([this.a.kill(), this.b.kill()]);
    await this.#pool.end();
    await this.journal.remove();
  }
}
