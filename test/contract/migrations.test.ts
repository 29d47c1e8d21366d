import { readdir } from "node:fs/promises";
import { resolve } from "node:path";
import { expect } from "chai";
import pg from "pg";
import { createLogger } from "../../runtime/common/logging.ts";
import { migrate } from "../../runtime/common/postgres.ts";
import { sharedPostgres } from "../support/shared-worker.ts";

const MIGRATIONS = resolve(import.meta.dirname, "../../runtime/worker/migrations");
const logger = createLogger("test", "error");

describe("replicas that start together on an empty database", () => {
  it("migrate it once, whoever comes first", async () => {
    const url = (await (await sharedPostgres()).createDatabase()).url("worker");

    await Promise.all(Array.from({ length: 8 }, () => migrate(url, "worker", MIGRATIONS, logger)));

    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query("SELECT name FROM schema_migration ORDER BY id");
    await client.end();
    const files = (await readdir(MIGRATIONS)).filter((name) => name.endsWith(".sql")).sort();
    expect(rows.map(({ name }) => `${name}.sql`)).to.deep.equal(files);
  });
});
