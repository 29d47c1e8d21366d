import { fileURLToPath } from "node:url";
import type { Pool } from "pg";
import type { Logger } from "../common/logging.ts";
import { createIfAbsent, migrate } from "../common/postgres.ts";
import { SCHEMA } from "./names.ts";

const MIGRATIONS = fileURLToPath(new URL("./migrations", import.meta.url));

/** Brings the provisioner's own schema up to date; replicas may do so at the same time. */
export async function prepareSchema(url: string, pool: Pool, logger: Logger): Promise<void> {
  await createIfAbsent(pool, `SCHEMA IF NOT EXISTS ${SCHEMA}`);
  await migrate(url, SCHEMA, MIGRATIONS, logger);
}
