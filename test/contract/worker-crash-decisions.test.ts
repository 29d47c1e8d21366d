import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { WorkerPair } from "../support/worker-pair.ts";

const caller = { graphId: "steps" };

describe("a worker that is killed, and what was decided before", () => {
  let pair: WorkerPair;
  let journal: string;
  let gate: string;

  before(async () => {
    pair = await WorkerPair.prepare({ MAX_ATTEMPTS: "2" });
  });
  beforeEach(async () => {
    [journal, gate] = [randomUUID(), randomUUID()];
    await pair.ready();
  });
  after(() => pair.stop());

  const input = (label = "a") => ({
    journal: pair.journal.path(journal),
    gate: pair.journal.path(gate),
    label,
  });
  const lines = () => pair.journal.lines(journal);
  /** The graph of a run has done its work, its checkpoints are written; only its end is not. */
  async function killedBeforeItsEndIsStored(threadId: string, opened: string): Promise<void> {
    const lock = await pair.lockThread(threadId);
    await pair.journal.open(opened);
    await eventually("the run's end waits to be stored", () => lock.isWaitedFor());
    await pair.a.kill();
    await lock.endWaiting();
    await lock.release();
    await pair.a.start();
  }

  it("does not answer a human's question for them when the run goes on", async () => {
    const approval = { graphId: "approval" };
    const client = await pair.a.client(approval);
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "approval", { input: { ...input(), amount: 9 } });
    const resumed = { command: { resume: "yes" } };
    const run = await client.runs.create(thread_id, "approval", resumed);
    await pair.journal.has(journal, "prepare");
    await killedBeforeItsEndIsStored(thread_id, gate);
    const after = await pair.a.client(approval);
    // biome-ignore lint/suspicious/noExplicitAny: the SDK types values as unknown records.
    const values: any = await after.runs.join(thread_id, run.run_id);
    expect(values.approved).to.equal("yes");
    expect(values).not.to.have.property("confirmed");
    expect(values.__interrupt__[0].value.question).to.equal("really?");
    expect(await lines()).to.deep.equal(["prepare"]);
  });

  for (const breakpoint of [{ interruptBefore: ["second"] }, { interruptAfter: ["first"] }]) {
    it(`at a breakpoint does not let the run pass it: ${JSON.stringify(breakpoint)}`, async () => {
      const client = await pair.a.client(caller);
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "steps", {
        input: { ...input(), hold: pair.journal.path(gate) },
        ...breakpoint,
      });
      await pair.journal.has(journal, "first a");
      await killedBeforeItsEndIsStored(thread_id, gate);
      const after = await pair.a.client(caller);
      expect(await after.runs.join(thread_id, run.run_id)).to.deep.include({ __interrupt__: [] });
      expect((await after.threads.get(thread_id)).status).to.equal("interrupted");
      expect((await after.threads.getState(thread_id)).next).to.deep.equal(["second"]);
      expect(await lines()).to.deep.equal(["first a"]);
    });
  }

  it("before it could carry out a rollback does not prevent it", async () => {
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "steps", { input: input() });
    await pair.checkpointed(run.run_id, 1);
    pair.a.pause();
    await pair.b.start();
    const other = await pair.b.client(caller);
    const cancelled = other.runs.cancel(thread_id, run.run_id, true, "rollback");
    await pair.a.kill();
    await cancelled;
    expect((await failureOf(other.runs.get(thread_id, run.run_id))).status).to.equal(404);
    expect(await other.threads.getHistory(thread_id)).to.deep.equal([]);
    expect((await other.threads.get(thread_id)).status).to.equal("idle");
  });
});
