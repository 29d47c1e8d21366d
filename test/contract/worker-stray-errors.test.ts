import { randomUUID } from "node:crypto";
import type { Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { WorkerPair } from "../support/worker-pair.ts";

const caller = { graphId: "stray" };

describe("agent code that throws where nobody waits for it", () => {
  let pair: WorkerPair;
  let journal: string;
  let gate: string;
  let client: Client;

  before(async () => {
    // A lease for hours: what is left behind has to be found without it running out.
    pair = await WorkerPair.prepare({ LEASE_MS: "36000000", MAX_ATTEMPTS: "2" });
  });
  beforeEach(async () => {
    [journal, gate] = [randomUUID(), randomUUID()];
    await pair.ready();
    client = await pair.a.client(caller);
  });
  after(() => pair.stop());

  const files = () => ({ journal: pair.journal.path(journal), gate: pair.journal.path(gate) });
  /** A run of another agent, that waits for a gate of its own. */
  async function startBystander() {
    const steps = await pair.a.client({ graphId: "steps" });
    const { thread_id } = await steps.threads.create();
    const input = { ...files(), gate: pair.journal.path(`${gate}-bystander`), label: "a" };
    const run = await steps.runs.create(thread_id, "steps", { input });
    await pair.journal.has(journal, "second a");
    await pair.checkpointed(run.run_id, 1);
    return {
      runId: run.run_id,
      async finish() {
        await pair.journal.open(`${gate}-bystander`);
        const after = await pair.a.client({ graphId: "steps" });
        return after.runs.join(thread_id, run.run_id);
      },
    };
  }

  for (const [how, error] of [
    ["timer", { error: "RangeError", message: "the timer went wrong" }],
    ["emitter", { error: "Error", message: "the socket broke" }],
    ["text", { error: "Error", message: "interrupt" }],
  ] as const) {
    it(`ends its own run with that error, and no other (${how})`, async () => {
      const bystander = await startBystander();
      const { pid } = pair.a;
      const { thread_id } = await client.threads.create();

      const run = await client.runs.create(thread_id, "stray", { input: { ...files(), how } });

      expect(await client.runs.join(thread_id, run.run_id)).to.deep.equal({ __error__: error });
      expect((await client.threads.get(thread_id)).status).to.equal("error");
      expect(await bystander.finish()).to.deep.include({ done: ["first a", "second a"] });
      expect(pair.a.pid).to.equal(pid);
      expect(pair.a.isRunning).to.equal(true);
      await eventually("the log has the run and the place in the agent's code", () =>
        pair.a.log.split("\n").some((line) => {
          const isOfRun = line.includes(run.run_id) && line.includes("nobody waits for it");
          return isOfRun && (how === "text" || line.includes("stray.ts"));
        }),
      );
    });
  }

  it("after its run has ended changes nothing any more", async () => {
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "stray", {
      input: { ...files(), how: "late" },
    });
    await client.runs.join(thread_id, run.run_id);

    await pair.journal.open(gate);

    await eventually("it was logged", () => pair.a.log.includes("too late"));
    expect((await client.runs.get(thread_id, run.run_id)).status).to.equal("success");
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
    expect(pair.a.isRunning).to.equal(true);
  });

  it("and belongs to no run ends the worker, which leaves its runs to the next one", async () => {
    const bystander = await startBystander();
    const { thread_id } = await client.threads.create();
    const input = { ...files(), how: "outside" };

    const run = await client.runs.create(thread_id, "stray", { input });

    await eventually("the worker has left", () => !pair.a.isRunning);
    expect(pair.a.log).to.include("nobody's code").and.include("outside of any run");
    await pair.a.start();
    await pair.journal.open(gate);
    const after = await pair.a.client(caller);
    expect(await after.runs.join(thread_id, run.run_id)).to.deep.equal(input);
    expect(await bystander.finish()).to.deep.include({ done: ["first a", "second a"] });
    // They count as tried: whatever ends every worker must not go on for ever.
    const { rows } = await pair.query(
      "SELECT attempt, released FROM worker.run WHERE run_id = ANY($1)",
      [[run.run_id, bystander.runId]],
    );
    expect(rows).to.deep.equal([
      { attempt: 2, released: 0 },
      { attempt: 2, released: 0 },
    ]);
  });
});
