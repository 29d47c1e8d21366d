import { resolve } from "node:path";
import { expect } from "chai";
import pg from "pg";
import { createLogger } from "../../runtime/common/logging.ts";
import { migrate } from "../../runtime/common/postgres.ts";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { sharedPostgres } from "../support/shared-worker.ts";
import { startWorker, type TestWorker } from "../support/worker.ts";
import { sentEvents } from "../support/worker-events.ts";
import { IMPATIENT } from "../support/worker-pair.ts";

const TRACING = resolve(import.meta.dirname, "../../runtime/gateway/migrations");

const caller = { graphId: "counter" };
const error = { error: "Error", message: "What came of the run could not be stored." };

describe("a run whose end the database does not take", () => {
  let worker: TestWorker;
  let pool: pg.Pool;

  before(async () => {
    const database = await (await sharedPostgres()).createDatabase();
    await migrate(database.url("gateway"), "tracing", TRACING, createLogger("test", "error"));
    pool = new pg.Pool({ connectionString: database.url() });
    const spans = { SPANS_DATABASE_URL: database.url("worker") };
    worker = await startWorker(database, { ...IMPATIENT, ...spans });
  });
  after(async () => {
    await worker.stop();
    await pool.end();
  });

  /** The spans of a run's attempts, as they are told in the trace. */
  const spansOf = async (runId: string | undefined) => {
    const { rows } = await pool.query(
      `SELECT failed, status_message FROM tracing.span
         WHERE name = 'run counter' AND attributes ->> 'platform.run_id' = $1 ORDER BY started_at`,
      [runId],
    );
    return rows;
  };

  const refuse = (condition: string) =>
    pool.query(
      `ALTER TABLE worker.run ADD CONSTRAINT refusal CHECK (NOT (${condition})) NOT VALID`,
    );
  const take = () => pool.query("ALTER TABLE worker.run DROP CONSTRAINT refusal");

  it("fails, is told so everywhere, and leaves its thread free", async () => {
    const client = await worker.client(caller);
    const { thread_id } = await client.threads.create();
    await refuse("output::text LIKE '%unwelcome%'");

    const answer = await worker.call(caller, "POST", `/threads/${thread_id}/runs/stream`, {
      assistant_id: "counter",
      input: { count: 1, note: "unwelcome" },
    });
    const events = await collect(sentEvents(answer));

    expect(events.at(-1)).to.deep.include({ event: "error", data: error });
    const [run] = await client.runs.list(thread_id);
    expect(run?.status).to.equal("error");
    expect(await client.runs.join(thread_id, run?.run_id ?? "")).to.deep.equal({
      __error__: error,
    });
    expect(await client.threads.get(thread_id)).to.deep.include({ status: "error", error });
    await eventually("the trace says so", async () => (await spansOf(run?.run_id)).length === 1);
    expect((await spansOf(run?.run_id))[0]).to.include({ failed: true });
    await take();
    const input = { count: 1, note: "welcome" };
    expect(await client.runs.wait(thread_id, "counter", { input })).to.include({ note: "welcome" });
  });

  it("in any form keeps no lease, and is done again", async () => {
    const client = await worker.client(caller);
    const { thread_id } = await client.threads.create();
    await refuse("status IN ('success', 'error')");
    const run = await client.runs.create(thread_id, "counter", { input: { count: 1 } });
    await eventually("it could not be concluded", () =>
      worker.log.split("\n").some((line) => {
        return line.includes(run.run_id) && line.includes("could not be concluded");
      }),
    );

    await take();

    expect(await client.runs.join(thread_id, run.run_id)).to.deep.equal({ count: 2 });
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
    await eventually("each attempt is told in the trace", async () => {
      const failures = (await spansOf(run.run_id)).map(({ failed }) => failed);
      return failures.length > 1 && failures[0] === true && failures.at(-1) === false;
    });
  });
});
