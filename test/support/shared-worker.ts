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
  stop(): Promise<void>;
}

let shared: Promise<SharedWorker> | undefined;

/** Starts it for whoever comes first. It ends with the tests. */
export function sharedWorker(): Promise<SharedWorker> {
  shared ??= start();
  return shared;
}

async function start(): Promise<SharedWorker> {
  const postgres = await startTestPostgres();
  const worker = await startWorker(postgres);
  const journal = await Journal.create();
  const pool = new pg.Pool({ connectionString: postgres.adminUrl });
  return {
    postgres,
    worker,
    journal,
    query: (text, values) => pool.query(text, values),
    async stop() {
      await worker.stop();
      await pool.end();
      await postgres.stop();
      await journal.remove();
    },
  };
}

// At the top of a module this is a hook of the whole run.
after(async () => {
  await (await shared)?.stop();
});

/** Somebody nobody else is, so that a test sees only what it made. */
export function newCaller(graphId: string): Required<Caller> {
  return { graphId, tenant: `tenant-${randomUUID()}` };
}
