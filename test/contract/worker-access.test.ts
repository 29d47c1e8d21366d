import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { failureOf } from "../support/failure.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

/** Every call that touches a thread or a run of somebody. */
function callsOn(threadId: string, runId: string, checkpointId: string) {
  const thread = `/threads/${threadId}`;
  const run = `${thread}/runs/${runId}`;
  const body = { assistant_id: "counter", input: { count: 1 } };
  return [
    ["GET", thread],
    ["PATCH", thread, { metadata: { stolen: true } }],
    ["GET", `${thread}/state`],
    ["POST", `${thread}/state`, { values: { count: 5 }, as_node: "count_up" }],
    ["GET", `${thread}/state/${checkpointId}`],
    ["POST", `${thread}/state/checkpoint`, { checkpoint: { checkpoint_id: checkpointId } }],
    ["GET", `${thread}/history`],
    ["POST", `${thread}/history`, {}],
    ["POST", `${thread}/copy`],
    ["GET", `${thread}/runs`],
    ["POST", `${thread}/runs`, body],
    ["POST", `${thread}/runs/wait`, body],
    ["POST", `${thread}/runs/stream`, body],
    ["GET", run],
    ["GET", `${run}/join`],
    ["GET", `${run}/stream`],
    ["GET", `/runs/${runId}/join`],
    ["GET", `/runs/${runId}/stream`],
    ["POST", `${run}/cancel`],
    ["DELETE", run],
    ["DELETE", thread],
  ] as const;
}

describe("who may do what", () => {
  let shared: SharedWorker;
  let worker: TestWorker;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });

  const others = {
    "another tenant": (owner: { graphId: string }) => newCaller(owner.graphId),
    "the same tenant in another graph": (owner: { tenant: string }) => ({
      graphId: "board",
      tenant: owner.tenant,
    }),
  };
  for (const [who, asOther] of Object.entries(others)) {
    it(`${who} finds nothing of one's threads and runs, even with their ids`, async () => {
      const owner = newCaller("counter");
      const client = await worker.client(owner);
      const { thread_id } = await client.threads.create({ metadata: { secret: 1 } });
      const run = await client.runs.create(thread_id, "counter", { input: { count: 1 } });
      await client.runs.join(thread_id, run.run_id);
      const before = await client.threads.get(thread_id);
      const state = await client.threads.getState(thread_id);
      const checkpointId = state.checkpoint.checkpoint_id ?? "";

      const other = asOther(owner);
      for (const [method, path, body] of callsOn(thread_id, run.run_id, checkpointId)) {
        const named =
          body && "assistant_id" in body ? { ...body, assistant_id: other.graphId } : body;
        const answer = await worker.call(other, method, path, named);
        expect(answer.status, `${method} ${path}`).to.equal(404);
        expect(await jsonOf(answer)).to.include({ error: "not_found", details: null });
      }
      for (const body of [{}, { metadata: { secret: 1 } }, { ids: [thread_id] }]) {
        expect(await jsonOf(worker.call(other, "POST", "/threads/search", body))).to.deep.equal([]);
      }
      expect(await jsonOf(worker.call(other, "POST", "/threads/count", {}))).to.equal(0);

      expect(await client.threads.get(thread_id)).to.deep.equal(before);
      expect(await client.threads.getState(thread_id)).to.deep.equal(state);
      expect(await client.runs.list(thread_id)).to.have.length(1);
    });
  }

  it("two tenants may use the same thread id, each for a thread of their own", async () => {
    const threadId = randomUUID();
    const [one, two] = await Promise.all([1, 2].map(() => worker.client(newCaller("counter"))));
    await one?.threads.create({ threadId });
    await two?.threads.create({ threadId });
    await one?.runs.wait(threadId, "counter", { input: { count: 10 } });
    const values = await two?.runs.wait(threadId, "counter", { input: { count: 1 } });
    expect(values).to.deep.equal({ count: 2 });
    await two?.threads.delete(threadId);
    expect((await one?.threads.getState(threadId))?.values).to.deep.equal({ count: 11 });
  });

  it("runs of others are not cancelled by cancelling all", async () => {
    const owner = newCaller("counter");
    const client = await worker.client(owner);
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "counter", { input: {}, afterSeconds: 3600 });
    const other = newCaller("counter");
    for (const body of [{ status: "all" }, { thread_id }, { run_ids: [run.run_id] }]) {
      expect((await worker.call(other, "POST", "/runs/cancel", body)).status).to.equal(204);
    }
    expect((await client.runs.get(thread_id, run.run_id)).status).to.equal("pending");
    await client.runs.cancelMany({ status: "pending" });
    expect((await client.runs.get(thread_id, run.run_id)).status).to.equal("interrupted");
  });

  it("an assistant of another graph is not found", async () => {
    const counter = await worker.client(newCaller("counter"));
    const board = await worker.client(newCaller("board"));
    const [foreign] = await board.assistants.search();
    for (const id of ["board", foreign?.assistant_id ?? "", "unknown"]) {
      const failure = await failureOf(counter.runs.wait(null, id, { input: {} }));
      expect(failure.status).to.equal(404);
      expect((await failureOf(counter.assistants.get(id))).status).to.equal(404);
    }
  });
});
