import { randomUUID } from "node:crypto";
import pg from "pg";
import { startTestPostgres, type TestPostgres } from "./postgres.ts";
import { type Caller, Journal, startWorker, type TestWorker } from "./worker.ts";

/** One worker for all tests that leave it as they find it; they differ by their tenants. */
export interface SharedWorker {
  postgres: TestPostgres;
  worker: TestWorker;
  journal: Journal;
  /** Looks into the database as its superuser. */
  query(text: string, values?: unknown[]): Promise<pg.QueryResult>;
  /** Holds a thread's row, so that whoever wants to end a run on it has to wait. */
  lockThread(threadId: string): Promise<HeldLock>;
  stop(): Promise<void>;
}

export interface HeldLock {
  isWaitedFor(): Promise<boolean>;
  /** Ends the sessions that wait for it: the server does not notice that a client was killed. */
  endWaiting(): Promise<void>;
  query(text: string, values: unknown[]): Promise<pg.QueryResult>;
  release(): Promise<void>;
}

let shared: Promise<SharedWorker> | undefined;
let server: Promise<TestPostgres> | undefined;

/** The PostgreSQL of all tests that don't hurt it; whoever needs rows of their own adds a database. */
export function sharedPostgres(): Promise<TestPostgres> {
  server ??= startTestPostgres();
  return server;
}

/** Starts it for whoever comes first. It ends with the tests. */
export function sharedWorker(): Promise<SharedWorker> {
  shared ??= start();
  return shared;
}

async function start(): Promise<SharedWorker> {
  const postgres = await sharedPostgres();
  const worker = await startWorker(postgres);
  const journal = await Journal.create();
  const pool = new pg.Pool({ connectionString: postgres.adminUrl });
  return {
    postgres,
    worker,
    journal,
    query: (text, values) => pool.query(text, values),
    lockThread: (threadId) => lockThread(pool, threadId),
    async stop() {
      await worker.stop();
      await pool.end();
      await journal.remove();
    },
  };
}

export async function lockThread(pool: pg.Pool, threadId: string): Promise<HeldLock> {
  return lock(pool, "SELECT 1 FROM worker.thread WHERE thread_id = $1 FOR UPDATE", [threadId]);
}

/** Holds all runs, so that whoever wants to take one from the queue has to wait. */
export async function lockRuns(pool: pg.Pool): Promise<HeldLock> {
  return lock(pool, "LOCK TABLE worker.run IN ACCESS EXCLUSIVE MODE");
}

async function lock(pool: pg.Pool, text: string, values: unknown[] = []): Promise<HeldLock> {
  const client = await pool.connect();
  await client.query("BEGIN");
  await client.query(text, values);
  const { rows } = await client.query("SELECT pg_backend_pid() AS pid");
  return {
    async isWaitedFor() {
      const text = "SELECT 1 FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
      return (await pool.query(text, [rows[0].pid])).rowCount !== 0;
    },
    async endWaiting() {
      const waiting = "FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
      await pool.query(`SELECT pg_terminate_backend(pid, 5000) ${waiting}`, [rows[0].pid]);
    },
    query: (text, values) => client.query(text, values),
    async release() {
      await client.query("COMMIT");
      client.release();
    },
  };
}

// At the top of a module this is a hook of the whole run.
after(async () => {
  try {
    await (await shared)?.stop();
  } finally {
    await (await server)?.stop();
  }
});

/** Somebody nobody else is, so that a test sees only what it made. */
export function newCaller(graphId: string): Required<Caller> {
  return { graphId, tenant: `tenant-${randomUUID()}` };
}
