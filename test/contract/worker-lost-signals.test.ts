import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { WorkerPair } from "../support/worker-pair.ts";

const caller = { graphId: "steps" };

describe("replicas whose signals get lost", () => {
  let pair: WorkerPair;

  before(async () => {
    pair = await WorkerPair.prepare({}, { CONCURRENT_RUNS: "1" });
    await pair.ready();
    await pair.b.start();
    await pair.query("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC");
  });
  after(() => pair.stop());

  it("take up what waits, and tell its end to whoever waits, all the same", async () => {
    const [a, b] = [await pair.a.client(caller), await pair.b.client(caller)];
    const gate = pair.journal.path("gate");
    const start = async (label: string) => {
      const { thread_id } = await a.threads.create();
      const input = { journal: pair.journal.path("journal"), gate, label };
      return a.runs.create(thread_id, "steps", { input });
    };
    // The first one takes all the room that there is at this replica, the second one has to wait.
    const runs = [await start(randomUUID()), await start(randomUUID())];

    const joined = runs.map((run) => b.runs.join(run.thread_id, run.run_id));
    await eventually("the other replica has found the one that waits", async () => {
      const lines = await pair.journal.lines("journal");
      return lines.filter((line) => line.startsWith("second ")).length === 2;
    });
    await pair.journal.open("gate");

    for (const values of await Promise.all(joined)) {
      expect((values as { done: string[] }).done).to.have.length(2);
    }
    await eventually("the signals were lost", () => pair.a.log.includes("permission denied"));
  });
});
