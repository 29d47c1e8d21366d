import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { failureOf } from "../support/failure.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

describe("a run in the background", () => {
  let shared: SharedWorker;
  let worker: TestWorker;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });

  it("in the background is accepted at once and can be joined", async () => {
    const caller = newCaller("steps");
    const client = await worker.client(caller);
    const { thread_id } = await client.threads.create();
    const name = randomUUID();
    const run = await client.runs.create(thread_id, "steps", {
      input: { journal: shared.journal.path(name), gate: shared.journal.path(`${name}-gate`) },
      metadata: { purpose: "test" },
    });
    expect(run).to.include({ thread_id, multitask_strategy: "enqueue" });
    expect(run.status).to.be.oneOf(["pending", "running"]);
    expect(run.metadata).to.deep.include({ purpose: "test" });
    expect((await client.threads.get(thread_id)).status).to.equal("busy");
    const [busy] = await client.runs.list(thread_id, { status: "running" });
    expect(busy?.run_id).to.equal(run.run_id);
    const conflict = await failureOf(client.runs.delete(thread_id, run.run_id));
    expect(conflict.status).to.equal(409);

    const joined = client.runs.join(thread_id, run.run_id);
    await shared.journal.open(`${name}-gate`);
    expect(await joined).to.deep.include({ done: ["first ", "second "] });
    expect((await client.runs.get(thread_id, run.run_id)).status).to.equal("success");
    expect(await client.runs.list(thread_id, { status: "running" })).to.deep.equal([]);

    await client.runs.delete(thread_id, run.run_id);
    expect((await failureOf(client.runs.get(thread_id, run.run_id))).status).to.equal(404);
  });

  it("in the background without a thread can be joined by its id alone", async () => {
    const caller = newCaller("counter");
    const client = await worker.client(caller);
    const run = await client.runs.create(null, "counter", { input: { count: 5 } });
    const answer = await worker.call(caller, "GET", `/runs/${run.run_id}/join`);
    expect(await answer.json()).to.deep.equal({ count: 6 });
  });

  it("comes in batches", async () => {
    const caller = newCaller("counter");
    const client = await worker.client(caller);
    const runs = await client.runs.createBatch([
      { assistantId: "counter", input: { count: 1 } },
      { assistantId: "counter", input: { count: 2 } },
      { assistantId: "counter", input: { count: 3 } },
    ]);
    const outputs = await Promise.all(
      runs.map(({ run_id }) => jsonOf(worker.call(caller, "GET", `/runs/${run_id}/join`))),
    );
    expect(outputs.map(({ count }) => count)).to.deep.equal([2, 3, 4]);
  });

  it("of a batch in which one is wrong is not started", async () => {
    const caller = newCaller("steps");
    const name = randomUUID();
    const good = { assistant_id: "steps", input: { journal: shared.journal.path(name) } };
    const metadata = { refused: caller.tenant };
    await shared.query(
      `ALTER TABLE worker.run ADD CONSTRAINT refusal
         CHECK (metadata ->> 'refused' IS DISTINCT FROM '${caller.tenant}')`,
      [],
    );
    for (const [wrong, status] of [
      [{}, 422],
      [{ assistant_id: "unknown" }, 404],
      [{ ...good, checkpoint_id: randomUUID() }, 404],
      [{ ...good, metadata }, 500],
      [{ ...good, metadata, on_completion: "keep" }, 500],
    ] as const) {
      const answer = await worker.call(caller, "POST", "/runs/batch", [good, wrong]);
      expect(answer.status).to.equal(status);
    }
    await shared.query("ALTER TABLE worker.run DROP CONSTRAINT refusal", []);
    const { rows } = await shared.query("SELECT 1 FROM worker.run WHERE tenant = $1", [
      caller.tenant,
    ]);
    expect(rows).to.deep.equal([]);
  });

  it("lists newest first, a page at a time", async () => {
    const client = await worker.client(newCaller("counter"));
    const { thread_id } = await client.threads.create();
    const ids: string[] = [];
    for (const count of [1, 2, 3]) {
      const run = await client.runs.create(thread_id, "counter", { input: { count } });
      ids.unshift(run.run_id);
      await client.runs.join(thread_id, run.run_id);
    }
    const all = await client.runs.list(thread_id);
    expect(all.map(({ run_id }) => run_id)).to.deep.equal(ids);
    const page = await client.runs.list(thread_id, { limit: 1, offset: 1 });
    expect(page.map(({ run_id }) => run_id)).to.deep.equal([ids[1]]);
  });

  it("waits as long as after_seconds says", async () => {
    const client = await worker.client(newCaller("counter"));
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "counter", {
      input: { count: 1 },
      afterSeconds: 1,
    });
    expect(run.status).to.equal("pending");
    await client.runs.join(thread_id, run.run_id);
    const { created_at, updated_at } = await client.runs.get(thread_id, run.run_id);
    expect(Date.parse(updated_at) - Date.parse(created_at)).to.be.at.least(1000);
  });

  it("may be set for a year from now", async () => {
    const client = await worker.client(newCaller("counter"));
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "counter", {
      input: { count: 1 },
      afterSeconds: 31_536_000,
    });
    expect(run.status).to.equal("pending");
    await client.runs.cancel(thread_id, run.run_id, true);
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
  });
});
