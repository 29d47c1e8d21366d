import { fileURLToPath } from "node:url";
import pg, { type Pool } from "pg";
import type { Logger } from "../common/logging.ts";
import { migrate } from "../common/postgres.ts";
import { SCHEMA } from "./names.ts";

const MIGRATIONS = fileURLToPath(new URL("./migrations", import.meta.url));
const MADE_BY_ANOTHER = new Set(["23505", "42P06"]);

/** Brings the provisioner's own schema up to date; replicas may do so at the same time. */
export async function prepareSchema(url: string, pool: Pool, logger: Logger): Promise<void> {
  try {
    await pool.query(`CREATE SCHEMA IF NOT EXISTS ${SCHEMA}`);
  } catch (error) {
    // PostgreSQL looks before it writes, and another replica may write in between.
    if (!(error instanceof pg.DatabaseError) || !MADE_BY_ANOTHER.has(error.code ?? "")) throw error;
  }
  await migrate(url, SCHEMA, MIGRATIONS, logger);
}
