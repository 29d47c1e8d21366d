import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { expect } from "chai";
import pg from "pg";
import { createLogger } from "../../runtime/common/logging.ts";
import { migrate } from "../../runtime/common/postgres.ts";
import { RunClaims } from "../../runtime/worker/run-claims.ts";
import { sharedPostgres } from "../support/shared-worker.ts";

const MIGRATIONS = resolve(import.meta.dirname, "../../runtime/worker/migrations");

describe("a claimed run", () => {
  let pool: pg.Pool;
  let claims: RunClaims;

  before(async () => {
    const url = (await (await sharedPostgres()).createDatabase()).url("worker");
    await migrate(url, "worker", MIGRATIONS, createLogger("test", "error"));
    pool = new pg.Pool({ connectionString: url });
    claims = new RunClaims(pool, 60_000);
  });
  afterEach(() => pool.query("DELETE FROM run"));
  after(() => pool.end());

  async function claimed() {
    await pool.query(
      `INSERT INTO run (tenant, graph_id, run_id, thread_id, assistant_id, status, ephemeral,
                        recorded, multitask_strategy, metadata, kwargs, caller)
         VALUES ('acme', 'g', $1, $1, $1, 'pending', true, false, 'enqueue', '{}', '{}', '{}')`,
      [randomUUID()],
    );
    const [run] = await claims.claim(["g"], 1, true);
    if (run === undefined) throw new Error("There was no run to claim.");
    return run;
  }
  const stored = async (runId: string) => {
    const { rows } = await pool.query(
      "SELECT status, attempt, released, lease_until < now() AS is_over FROM run WHERE run_id = $1",
      [runId],
    );
    return rows[0];
  };

  it("is given back once, however often that is told", async () => {
    const run = await claimed();
    for (const _ of ["told", "told again"]) await claims.release(run);
    expect(await stored(run.runId)).to.deep.equal({
      status: "pending",
      attempt: 1,
      released: 1,
      is_over: null,
    });
  });

  it("that is to stop is left to be ended, however often it is given back", async () => {
    const run = await claimed();
    await pool.query("UPDATE run SET cancel_action = 'interrupt'");

    for (const _ of ["told", "told again"]) await claims.release(run);

    expect(await stored(run.runId)).to.deep.equal({
      status: "running",
      attempt: 1,
      released: 0,
      is_over: true,
    });
    expect(await claims.reap(4)).to.deep.equal([{ runId: run.runId, fate: "ended" }]);
  });
});
