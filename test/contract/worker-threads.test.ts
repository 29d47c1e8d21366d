import { randomUUID } from "node:crypto";
import type { Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

const ODD = "nul \u0000, half \ud800 a pair, other half \udc00, a pair 😀, mark \ue000, \\u0000";

describe("a thread", () => {
  let shared: SharedWorker;
  let worker: TestWorker;
  let caller: ReturnType<typeof newCaller>;
  let client: Client;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });
  beforeEach(async () => {
    caller = newCaller("board");
    client = await worker.client(caller);
  });

  it("is made, found, changed and deleted", async () => {
    const made = await client.threads.create({ metadata: { owner: "ann", nested: { a: [1] } } });
    expect(made).to.deep.include({ status: "idle", values: null, interrupts: {} });
    expect(made.metadata).to.deep.equal({
      owner: "ann",
      nested: { a: [1] },
      graph_id: "board",
    });
    const patched = await client.threads.update(made.thread_id, { metadata: { owner: "bob" } });
    expect(patched.metadata).to.deep.include({ owner: "bob", nested: { a: [1] } });
    expect(await client.threads.get(made.thread_id)).to.deep.equal(patched);
    await client.threads.delete(made.thread_id);
    for (const call of [
      () => client.threads.get(made.thread_id),
      () => client.threads.delete(made.thread_id),
      () => client.threads.update(made.thread_id, { metadata: {} }),
      () => client.threads.getState(made.thread_id),
      () => client.threads.getHistory(made.thread_id),
      () => client.threads.copy(made.thread_id),
      () => client.runs.list(made.thread_id),
      () => client.threads.updateState(made.thread_id, { values: {} }),
    ]) {
      expect((await failureOf(call())).status).to.equal(404);
    }
  });

  it("of an id that is taken is a conflict, unless that is fine with the caller", async () => {
    const threadId = randomUUID();
    await client.threads.create({ threadId, metadata: { n: 1 } });
    expect((await failureOf(client.threads.create({ threadId }))).status).to.equal(409);
    expect(
      (await failureOf(client.threads.create({ threadId, ifExists: "raise" }))).status,
    ).to.equal(409);
    const same = await client.threads.create({
      threadId,
      ifExists: "do_nothing",
      metadata: { n: 2 },
    });
    expect(same.metadata).to.deep.include({ n: 1 });
  });

  it("may begin with a past, and does not exist if that is impossible", async () => {
    const { thread_id } = await client.threads.create({
      supersteps: [
        { updates: [{ values: { write: { left: "L" } }, asNode: "__input__" }] },
        { updates: [{ values: { left: "L" }, asNode: "place" }] },
      ],
    });
    const state = await client.threads.getState(thread_id);
    expect(state.values).to.deep.include({ left: "L" });
    expect(state.next).to.deep.equal(["rest"]);

    const threadId = randomUUID();
    const failure = await failureOf(
      client.threads.create({
        threadId,
        supersteps: [{ updates: [{ values: {}, asNode: "nowhere" }] }],
      }),
    );
    expect(failure.status).to.equal(422);
    expect((await failureOf(client.threads.get(threadId))).status).to.equal(404);
  });

  it("that is deleted takes its runs, its states and its running run with it", async () => {
    const steps = newCaller("steps");
    const stepsClient = await worker.client(steps);
    const { thread_id } = await stepsClient.threads.create();
    const name = randomUUID();
    const files = { journal: shared.journal.path(name), gate: shared.journal.path(randomUUID()) };
    const waiting = worker.call(steps, "POST", `/threads/${thread_id}/runs/wait`, {
      assistant_id: "steps",
      input: files,
    });
    await shared.journal.has(name, "second ");
    await stepsClient.threads.delete(thread_id);
    expect(await jsonOf(waiting)).to.deep.equal({});
    const tables = ["thread", "run", "run_event"].map(
      (table) => `SELECT 1 FROM worker.${table} WHERE tenant = $1`,
    );
    const { rows } = await shared.query(
      `${tables.join(" UNION ALL ")} UNION ALL
       SELECT 1 FROM worker.checkpoints WHERE thread_id LIKE $1 || '/%' UNION ALL
       SELECT 1 FROM worker.checkpoint_blobs WHERE thread_id LIKE $1 || '/%' UNION ALL
       SELECT 1 FROM worker.checkpoint_writes WHERE thread_id LIKE $1 || '/%'`,
      [steps.tenant],
    );
    expect(rows).to.deep.equal([]);
    expect(await shared.journal.lines(name)).not.to.include("second-ends ");
  });

  it("is found by metadata, values, status and id", async () => {
    const [one, two, three] = await Promise.all(
      [{ team: "a", n: 1 }, { team: "a", n: 2 }, { team: "b" }].map((metadata) =>
        client.threads.create({ metadata }),
      ),
    );
    await client.runs.wait(two?.thread_id ?? "", "board", {
      input: { write: { left: "found", right: "x" } },
    });
    const ids = async (query: Parameters<typeof client.threads.search>[0]) =>
      (await client.threads.search(query)).map(({ thread_id }) => thread_id);
    expect(await ids({})).to.have.members([one, two, three].map((t) => t?.thread_id));
    expect(await ids({ metadata: { team: "a" } })).to.have.members([
      one?.thread_id,
      two?.thread_id,
    ]);
    expect(await ids({ metadata: { team: "a", n: 2 } })).to.deep.equal([two?.thread_id]);
    expect(await ids({ metadata: { team: "c" } })).to.deep.equal([]);
    expect(await ids({ values: { left: "found" } })).to.deep.equal([two?.thread_id]);
    expect(await ids({ status: "busy" })).to.deep.equal([]);
    expect(await ids({ ids: [three?.thread_id ?? ""] })).to.deep.equal([three?.thread_id]);
    expect(await client.threads.count({ metadata: { team: "a" } })).to.equal(2);
    expect(await client.threads.count({ values: { left: "found" } })).to.equal(1);
    expect(await client.threads.count({ status: "idle" })).to.equal(3);
    expect(await client.threads.count()).to.equal(3);
  });

  it("is listed in order, a page at a time, as much of it as wanted", async () => {
    const ids: string[] = [];
    for (const n of [1, 2, 3]) {
      ids.push((await client.threads.create({ metadata: { n } })).thread_id);
    }
    const search = (body: object) => worker.call(caller, "POST", "/threads/search", body);
    const listed = async (body: object) =>
      (await jsonOf(search(body))).map((thread: { thread_id: string }) => thread.thread_id);
    expect(await listed({})).to.deep.equal([...ids].reverse());
    expect(await listed({ sort_by: "created_at", sort_order: "asc" })).to.deep.equal(ids);
    expect(await listed({ sort_by: "thread_id", sort_order: "asc" })).to.deep.equal(
      [...ids].sort(),
    );
    await client.threads.update(ids[0] ?? "", { metadata: { touched: true } });
    expect((await listed({ sort_by: "updated_at" }))[0]).to.equal(ids[0]);

    const first = await search({ limit: 2 });
    expect(first.headers.get("x-pagination-next")).to.equal("2");
    expect(await jsonOf(first)).to.have.length(2);
    const second = await search({ limit: 2, offset: 2 });
    expect(second.headers.get("x-pagination-next")).to.equal(null);
    expect(second.headers.get("x-pagination-total")).to.equal("3");
    expect(await jsonOf(second)).to.have.length(1);
    const exact = await search({ limit: 3 });
    expect(exact.headers.get("x-pagination-next")).to.equal(null);
    expect(exact.headers.get("x-pagination-total")).to.equal("3");
    expect(await jsonOf(search({ limit: 1, select: ["thread_id", "metadata"] }))).to.satisfy(
      ([thread]: object[]) =>
        Object.keys(thread ?? {})
          .sort()
          .join() === "metadata,thread_id",
    );
  });

  it("keeps any text: in its metadata, its values and its runs", async () => {
    const metadata = { odd: ODD, [ODD]: [ODD] };
    const { thread_id } = await client.threads.create({ metadata });
    expect((await client.threads.get(thread_id)).metadata).to.deep.include(metadata);
    const run = await client.runs.create(thread_id, "board", {
      input: { write: { left: ODD, right: ODD } },
      metadata,
    });
    const output = await client.runs.join(thread_id, run.run_id);
    expect(output).to.deep.include({ left: ODD, right: ODD });
    const stored = await client.runs.get(thread_id, run.run_id);
    expect(stored.metadata).to.deep.equal(metadata);
    expect(stored.status).to.equal("success");
    expect((await client.threads.get(thread_id)).values).to.deep.include({ left: ODD });
    const state = await client.threads.getState(thread_id);
    expect(state.values).to.deep.include({ left: ODD });
    expect(state.metadata).to.deep.include(metadata);
    const [last] = await client.threads.getHistory(thread_id, { metadata: { odd: ODD }, limit: 1 });
    expect(last?.checkpoint).to.deep.equal(state.checkpoint);
    expect(await client.threads.count({ metadata: { odd: ODD } })).to.equal(1);
    expect(await client.threads.count({ values: { left: ODD } })).to.equal(1);
    expect(await client.threads.count({ values: { left: ODD.slice(1) } })).to.equal(0);
    const patched = await client.threads.update(thread_id, { metadata: { more: ODD } });
    expect(patched.metadata).to.deep.include({ ...metadata, more: ODD });
  });

  it("can be copied with all that happened on it, and goes its own way", async () => {
    const { thread_id } = await client.threads.create({ metadata: { owner: "ann" } });
    await client.runs.wait(thread_id, "board", { input: { write: { left: "1" } } });
    await client.runs.wait(thread_id, "board", { input: { write: { right: "2" } } });
    const copy = await client.threads.copy(thread_id);
    expect(copy.thread_id).not.to.equal(thread_id);
    expect(copy.metadata).to.deep.include({ owner: "ann" });
    expect(copy.status).to.equal("idle");
    const history = (id: string) => client.threads.getHistory(id, { limit: 100 });
    const values = (states: { values: unknown }[]) => states.map((state) => state.values);
    expect(values(await history(copy.thread_id))).to.deep.equal(values(await history(thread_id)));
    await client.runs.wait(copy.thread_id, "board", { input: { write: { left: "copy" } } });
    expect((await client.threads.getState(thread_id)).values).to.deep.include({ left: "1" });
    expect((await client.threads.getState(copy.thread_id)).values).to.deep.include({
      left: "copy",
      right: "2",
    });
  });

  it("that waits for a human waits in its copy as well", async () => {
    const approval = await worker.client(newCaller("approval"));
    const { thread_id } = await approval.threads.create();
    await approval.runs.wait(thread_id, "approval", { input: { amount: 3 } });
    const copy = await approval.threads.copy(thread_id);
    expect(copy.status).to.equal("interrupted");
    const values = await approval.runs.wait(copy.thread_id, "approval", {
      command: { resume: "yes" },
    });
    expect(values).to.deep.include({ approved: "yes" });
    expect((await approval.threads.get(thread_id)).status).to.equal("interrupted");
  });

  it("changes its updated_at when something happens on it", async () => {
    const thread = await client.threads.create();
    await client.runs.wait(thread.thread_id, "board", { input: { write: { left: "1" } } });
    await eventually("it is newer", async () => {
      const { updated_at } = await client.threads.get(thread.thread_id);
      return Date.parse(updated_at) > Date.parse(thread.updated_at);
    });
  });
});
