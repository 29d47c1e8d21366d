import { expect } from "chai";
import { createLogger } from "../../runtime/common/logging.ts";
import { createPool, overConnectionLoss } from "../../runtime/common/postgres.ts";
import { DatabaseLine } from "../support/database-line.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { sharedPostgres } from "../support/shared-worker.ts";
import { jsonOf, startWorker, type TestWorker } from "../support/worker.ts";

const caller = { graphId: "counter" };
/** A request waits 10 s; the driver alone would wait 30 s. */
const DEADLINE_MS = 20_000;

describe("a database that takes connections and never answers", () => {
  let line: DatabaseLine;
  let worker: TestWorker;

  before(async () => {
    const database = await (await sharedPostgres()).createDatabase();
    line = await DatabaseLine.to(database.url("worker"));
    worker = await startWorker(database, { DATABASE_URL: line.url, DRAIN_MS: "500" });
  });
  after(async () => {
    await worker.kill();
    await line.close();
  });

  it("is a 503 that says when to try again, on every kind of request, and over in time", async () => {
    const { thread_id } = await jsonOf(worker.call(caller, "POST", "/threads", {}));
    const run = { assistant_id: "counter", input: { count: 1 } };
    line.goDead();

    const answers = await Promise.all(
      (
        [
          ["POST", "/runs/wait", run],
          ["POST", `/threads/${thread_id}/runs/stream`, run],
          ["POST", "/threads", {}],
          ["GET", `/threads/${thread_id}/state`, undefined],
          ["POST", `/threads/${thread_id}/history`, {}],
        ] as const
      ).map(([method, path, body]) =>
        worker.call(caller, method, path, body, { signal: AbortSignal.timeout(DEADLINE_MS) }),
      ),
    );

    for (const answer of answers) {
      expect(answer.status, answer.url).to.equal(503);
      expect(answer.headers.get("retry-after")).to.match(/^\d+$/);
      expect((await jsonOf(answer)).message).to.include("database does not answer");
    }
    const probe = (path: string) =>
      worker.call(undefined, "GET", path, undefined, { signal: AbortSignal.timeout(DEADLINE_MS) });
    expect((await probe("/live")).status).to.equal(200);
    expect((await probe("/ready")).status).to.equal(503);
    line.recover();
    await eventually(
      "it answers again",
      async () => (await worker.call(caller, "POST", "/runs/wait", run)).status === 200,
      DEADLINE_MS,
    );
  });

  it("keeps nobody waiting longer than asked for, also in a single statement", async () => {
    const dead = await DatabaseLine.to(line.url);
    dead.goDead();
    const pool = createPool(dead.url, createLogger("test", "error"), { applicationName: "test" });

    const failure = await failureOf(overConnectionLoss(200, () => pool.query("SELECT 1")));

    expect(failure).to.include({ status: 503 });
    await dead.close();
    await pool.end();
  });
});
