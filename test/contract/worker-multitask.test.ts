import { randomUUID } from "node:crypto";
import type { Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

describe("several runs on one thread", () => {
  let shared: SharedWorker;
  let worker: TestWorker;
  let caller: ReturnType<typeof newCaller>;
  let client: Client;
  let threadId: string;
  let journal: string;
  let gate: string;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });
  beforeEach(async () => {
    caller = newCaller("steps");
    client = await worker.client(caller);
    threadId = (await client.threads.create()).thread_id;
    journal = randomUUID();
    gate = randomUUID();
  });

  const input = (label: string, waits = false) => ({
    journal: shared.journal.path(journal),
    gate: waits ? shared.journal.path(gate) : null,
    label,
  });
  /** A run that stands in its second node. */
  async function running(label = "a") {
    const run = await client.runs.create(threadId, "steps", { input: input(label, true) });
    await shared.journal.has(journal, `second ${label}`);
    return run;
  }
  const status = async (runId: string) => (await client.runs.get(threadId, runId)).status;
  const thread = async () => (await client.threads.get(threadId)).status;
  const done = async () =>
    ((await client.threads.getState(threadId)).values as { done: string[] }).done;

  it("wait for each other by default, in the order in which they came", async () => {
    await running();
    const runs = [];
    for (const label of ["b", "c", "d"]) {
      runs.push(await client.runs.create(threadId, "steps", { input: input(label) }));
    }
    expect(runs.map((run) => run.status)).to.deep.equal(["pending", "pending", "pending"]);
    await shared.journal.open(gate);
    await client.runs.join(threadId, runs[2]?.run_id ?? "");
    expect(await done()).to.deep.equal(
      ["a", "b", "c", "d"].flatMap((label) => [`first ${label}`, `second ${label}`]),
    );
    expect(await thread()).to.equal("idle");
  });

  it("are refused with a 409 where the second one asks for that", async () => {
    const run = await running();
    const failure = await failureOf(
      client.runs.create(threadId, "steps", { input: input("b"), multitaskStrategy: "reject" }),
    );
    expect(failure.status).to.equal(409);
    await shared.journal.open(gate);
    await client.runs.join(threadId, run.run_id);
    expect(await client.runs.list(threadId)).to.have.length(1);
    expect(await done()).to.deep.equal(["first a", "second a"]);
  });

  it("give way to one that interrupts, and what they have done stays", async () => {
    const first = await running();
    const waiting = await client.runs.create(threadId, "steps", { input: input("b") });
    const values = await client.runs.wait(threadId, "steps", {
      input: input("c"),
      multitaskStrategy: "interrupt",
    });
    expect(values).to.deep.include({ done: ["first a", "first c", "second c"] });
    expect(await status(first.run_id)).to.equal("interrupted");
    expect(await status(waiting.run_id)).to.equal("interrupted");
    expect(await thread()).to.equal("idle");
    expect(await shared.journal.lines(journal)).not.to.include("second-ends a");
  });

  it("give way to one that rolls back, and it is as if they had never been", async () => {
    await client.runs.wait(threadId, "steps", { input: input("0") });
    const history = await client.threads.getHistory(threadId, { limit: 100 });
    const first = await running();
    const waiting = await client.runs.create(threadId, "steps", { input: input("b") });
    const values = await client.runs.wait(threadId, "steps", {
      input: input("c"),
      multitaskStrategy: "rollback",
    });
    expect(values).to.deep.include({ done: ["first 0", "second 0", "first c", "second c"] });
    for (const { run_id } of [first, waiting]) {
      expect((await failureOf(client.runs.get(threadId, run_id))).status).to.equal(404);
    }
    const after = await client.threads.getHistory(threadId, { limit: 100 });
    expect(after.slice(-history.length)).to.deep.equal(history);
    expect(after).to.have.length(history.length * 2);
  });

  it("end when they are cancelled, running or waiting", async () => {
    const first = await running();
    const waiting = await client.runs.create(threadId, "steps", { input: input("b") });
    await client.runs.cancel(threadId, waiting.run_id, true);
    expect(await status(waiting.run_id)).to.equal("interrupted");
    expect(await thread()).to.equal("busy");
    await client.runs.cancel(threadId, first.run_id, true);
    expect(await status(first.run_id)).to.equal("interrupted");
    expect(await thread()).to.equal("interrupted");
    expect(await done()).to.deep.equal(["first a"]);
    const failure = await failureOf(client.runs.cancel(threadId, first.run_id));
    expect(failure.status).to.equal(409);
    const again = await client.runs.wait(threadId, "steps", { input: input("c") });
    expect(again).to.deep.include({ done: ["first a", "first c", "second c"] });
  });

  it("are gone when they are cancelled by a rollback, running or waiting", async () => {
    const first = await running();
    const waiting = await client.runs.create(threadId, "steps", { input: input("b") });
    await client.runs.cancel(threadId, waiting.run_id, true, "rollback");
    await client.runs.cancel(threadId, first.run_id, true, "rollback");
    expect(await client.runs.list(threadId)).to.deep.equal([]);
    expect(await client.threads.getHistory(threadId)).to.deep.equal([]);
    expect(await thread()).to.equal("idle");
  });

  it("are cancelled without waiting where nobody waits", async () => {
    const first = await running();
    const answer = await worker.call(
      caller,
      "POST",
      `/threads/${threadId}/runs/${first.run_id}/cancel?wait=0`,
    );
    expect(answer.status).to.equal(202);
    await eventually("it has stopped", async () => (await status(first.run_id)) === "interrupted");
  });

  it("are cancelled all at once", async () => {
    const first = await running();
    const second = await client.runs.create(threadId, "steps", { input: input("b") });
    await client.runs.cancelMany({ threadId, runIds: [first.run_id, second.run_id] });
    for (const { run_id } of [first, second]) {
      await client.runs.join(threadId, run_id);
      expect(await status(run_id)).to.equal("interrupted");
    }
  });

  it("that nobody waits for any more are cancelled, if that was wished for", async () => {
    for (const kind of ["wait", "stream"]) {
      const gone = new AbortController();
      const body = { assistant_id: "steps", input: input(kind, true), on_disconnect: "cancel" };
      const path = `/threads/${threadId}/runs/${kind}`;
      const answer = await worker.call(caller, "POST", path, body, { signal: gone.signal });
      const runId = answer.headers.get("content-location")?.split("/").at(-1) ?? "";
      await shared.journal.has(journal, `second ${kind}`);
      gone.abort();
      await eventually("it has stopped", async () => (await status(runId)) === "interrupted");
    }
  });

  it("that nobody waits for any more go on otherwise", async () => {
    const gone = new AbortController();
    const body = { assistant_id: "steps", input: input("a", true) };
    const path = `/threads/${threadId}/runs/stream`;
    const answer = await worker.call(caller, "POST", path, body, { signal: gone.signal });
    const runId = answer.headers.get("content-location")?.split("/").at(-1) ?? "";
    await shared.journal.has(journal, "second a");
    gone.abort();
    await shared.journal.open(gate);
    expect(await client.runs.join(threadId, runId)).to.deep.include({
      done: ["first a", "second a"],
    });
  });

  it("joined by somebody who leaves are cancelled only if that one wished it", async () => {
    const run = await running();
    for (const [query, stays] of [
      ["", true],
      ["?cancel_on_disconnect=1", false],
    ] as const) {
      const gone = new AbortController();
      const path = `/threads/${threadId}/runs/${run.run_id}/stream${query}`;
      await worker.call(caller, "GET", path, undefined, { signal: gone.signal });
      gone.abort();
      if (stays) expect(await status(run.run_id)).to.equal("running");
      else {
        await eventually(
          "it has stopped",
          async () => (await status(run.run_id)) === "interrupted",
        );
      }
    }
  });

  it("rolled back in the very moment in which they end are rolled back", async () => {
    const run = await running();
    // The run has written all it has to write, and waits for its thread to store its end.
    const lock = await shared.lockThread(threadId);
    await shared.journal.open(gate);
    await shared.journal.has(journal, "second-ends a");
    await eventually("its end waits for the lock", () => lock.isWaitedFor());
    await lock.query("UPDATE worker.run SET cancel_action = 'rollback' WHERE run_id = $1", [
      run.run_id,
    ]);
    await lock.release();
    await eventually("it is gone", async () => (await client.runs.list(threadId)).length === 0);
    expect(await client.threads.getHistory(threadId)).to.deep.equal([]);
    expect(await thread()).to.equal("idle");
  });

  it("and more than a worker takes at a time are all done", async () => {
    const others = newCaller("counter");
    const many = await worker.client(others);
    const runs = await Promise.all(
      Array.from({ length: 200 }, (_, n) =>
        many.runs.create(null, "counter", { input: { count: n } }),
      ),
    );
    const outputs = await Promise.all(
      runs.map(({ run_id }) => jsonOf(worker.call(others, "GET", `/runs/${run_id}/join`))),
    );
    expect(outputs).to.deep.equal(runs.map((_, n) => ({ count: n + 1 })));
  });
});
