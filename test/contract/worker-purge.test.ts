import { resolve } from "node:path";
import { expect } from "chai";
import pg from "pg";
import { createLogger } from "../../runtime/common/logging.ts";
import { migrate } from "../../runtime/common/postgres.ts";
import { RunClaims } from "../../runtime/worker/run-claims.ts";
import { PURGE_LIMIT } from "../../runtime/worker/run-statements.ts";
import { sharedPostgres } from "../support/shared-worker.ts";

const MIGRATIONS = resolve(import.meta.dirname, "../../runtime/worker/migrations");
/** More than two statements take. */
const MANY = 2 * PURGE_LIMIT + 1;

describe("what nobody will ask for any more", () => {
  let pool: pg.Pool;

  before(async () => {
    const url = (await (await sharedPostgres()).createDatabase()).url("worker");
    await migrate(url, "worker", MIGRATIONS, createLogger("test", "error"));
    pool = new pg.Pool({ connectionString: url });
  });
  after(() => pool.end());

  const addEvents = (count: number, age: string) =>
    pool.query(
      `INSERT INTO run_event (tenant, graph_id, run_id, id, event, data, created_at)
         SELECT 'acme', 'g', gen_random_uuid(), n, 'values', '{}', now() - $2::interval
           FROM generate_series(1, $1::integer) n`,
      [count, age],
    );
  const addRuns = (count: number, age: string, ephemeral: boolean) =>
    pool.query(
      `INSERT INTO run (tenant, graph_id, run_id, thread_id, assistant_id, status, ephemeral,
                        recorded, multitask_strategy, metadata, kwargs, caller, output, updated_at)
         SELECT 'acme', 'g', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'success', $3,
                false, 'enqueue', '{}', '{}', '{}', '{}', now() - $2::interval
           FROM generate_series(1, $1::integer)`,
      [count, age, ephemeral],
    );

  it("is forgotten in one go, however much has gathered, and nothing else", async () => {
    await addEvents(MANY, "61 minutes");
    await addEvents(3, "59 minutes");
    for (const ephemeral of [true, false]) {
      await addRuns(MANY, "11 minutes", ephemeral);
      await addRuns(3, "9 minutes", ephemeral);
    }

    await new RunClaims(pool, 1_000).purge();

    const { rows } = await pool.query(
      `SELECT (SELECT count(*)::integer FROM run_event) AS events,
              (SELECT count(*)::integer FROM run WHERE ephemeral) AS ephemeral,
              (SELECT count(*)::integer FROM run WHERE NOT ephemeral) AS kept,
              (SELECT count(*)::integer FROM run WHERE NOT ephemeral AND output IS NOT NULL) AS outputs`,
    );
    expect(rows).to.deep.equal([{ events: 3, ephemeral: 3, kept: MANY + 3, outputs: 3 }]);
  });
});
