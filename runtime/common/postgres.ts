import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { unavailable } from "./errors.ts";
import type { Logger } from "./logging.ts";

/**
 * A pool whose idle connections may die (a restart of the server) without ending the process.
 *
 * @param url The program's own role. The schema is the role's search_path.
 * @param options.synchronousCommit `false` lets a commit return before it is on disk: only for
 *   writes that a later synchronous commit carries along.
 */
export function createPool(
  url: string,
  logger: Logger,
  options: { max?: number; synchronousCommit?: boolean; applicationName: string },
): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: options.max ?? 10,
    application_name: options.applicationName,
    connectionTimeoutMillis: 5_000,
    // A server that vanished says nothing: without these a statement would wait for ever.
    keepAlive: true,
    query_timeout: QUERY_TIMEOUT_MS,
    ...(options.synchronousCommit === false && { options: "-c synchronous_commit=off" }),
  });
  pool.on("error", (error) => logger.warn({ error: error.message }, "database connection lost"));
  return pool;
}

/** No statement of ours takes this long on a server that is well. */
const QUERY_TIMEOUT_MS = 30_000;

/** SQLSTATE classes and system codes that say "the server went away or is not up yet". */
const LOST_SQLSTATES = new Set([
  ...["57P01", "57P02", "57P03", "53300", "25006"],
  ...["08000", "08001", "08003", "08004", "08006"],
]);
const LOST_SYSTEM_CODES = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "ENOENT"],
  ...["EAI_AGAIN", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH"],
]);
const LOST_MESSAGES =
  /Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error/;

/** True where the statement failed because of the connection, not because of what it said. */
export function isConnectionLoss(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = "code" in error ? String(error.code) : "";
  return (
    LOST_SQLSTATES.has(code) || LOST_SYSTEM_CODES.has(code) || LOST_MESSAGES.test(error.message)
  );
}

/**
 * Repeats a statement over a restart of the server. Only for idempotent ones: the first try may
 * have been committed before its answer was lost.
 *
 * @param patienceMs How long to go on trying, and to wait. Then: HttpError 503 with retry-after.
 */
export async function overConnectionLoss<T>(
  patienceMs: number,
  statement: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + patienceMs;
  for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 1_000)) {
    try {
      return await within(deadline - Date.now(), statement());
    } catch (error) {
      if (!isConnectionLoss(error)) throw error;
      if (Date.now() + pauseMs > deadline) throw silent();
      await delay(pauseMs);
    }
  }
}

/** A server that vanished says nothing at all: who waits is told in time, the statement goes on. */
async function within<T>(milliseconds: number, statement: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(silent()), milliseconds);
  });
  try {
    return await Promise.race([statement, late]);
  } finally {
    clearTimeout(timer);
  }
}

const silent = () => unavailable("The database does not answer. Try again shortly.", 2);

/** Does work within a transaction: all of it is stored, or nothing. */
export async function inTransaction<T>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    client.release();
    return result;
  } catch (error) {
    // A connection in the middle of a transaction is of no use to the next one.
    client.release(true);
    throw error;
  }
}

/**
 * Brings a program's schema up to date; replicas that start together wait for each other.
 *
 * @param directory Holds `<number>_<name>.sql` files, applied in order, each in a transaction.
 */
export async function migrate(
  url: string,
  schema: string,
  directory: string,
  logger: Logger,
): Promise<void> {
  // Loaded only where it is used: 18 MB that a program without a schema of its own can do without.
  const { runner } = await import("node-pg-migrate");
  await alone(url, schema, async () => {
    await runner({
      databaseUrl: url,
      dir: directory,
      direction: "up",
      migrationsTable: "schema_migration",
      schema,
      checkOrder: true,
      // Its advisory lock can be taken by every role of the database, so by every agent.
      noLock: true,
      logger: {
        debug: () => {},
        info: () => {},
        warn: (message) => logger.warn(message),
        error: (message) => logger.error(message),
      },
    });
  });
}

/** Does work while holding a lock that only the schema's owner can take. */
async function alone(url: string, schema: string, work: () => Promise<void>): Promise<void> {
  const table = `${pg.escapeIdentifier(schema)}.migration_lock`;
  const client = new pg.Client({ connectionString: url, application_name: "migrations" });
  await client.connect();
  try {
    await createIfAbsent(client, `TABLE IF NOT EXISTS ${table} ()`);
    await client.query("BEGIN");
    await client.query(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
    await work();
    await client.query("COMMIT");
  } finally {
    await client.end();
  }
}

/**
 * Runs `CREATE …` of something that is to be there afterwards. PostgreSQL looks before it writes: a
 * replica that starts at the same moment may be first, in spite of `IF NOT EXISTS`.
 */
export async function createIfAbsent(
  client: pg.Client | pg.Pool,
  what: `${"SCHEMA" | "TABLE"} IF NOT EXISTS ${string}`,
): Promise<void> {
  try {
    await client.query(`CREATE ${what}`);
  } catch (error) {
    if (!MADE_BY_ANOTHER.has((error as { code?: string }).code ?? "")) throw error;
  }
}

/** duplicate_schema, -table, -object (a row type); the unique violation of a race in the catalogue. */
const MADE_BY_ANOTHER = new Set(["42P06", "42P07", "42710", "23505"]);
