import { randomUUID } from "node:crypto";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import type { Checkpoint, Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import pg from "pg";
import { loadGraphs } from "../../runtime/worker/graphs.ts";
import { RunStore } from "../../runtime/worker/run-store.ts";
import { ThreadService } from "../../runtime/worker/thread-service.ts";
import { ThreadStore } from "../../runtime/worker/thread-store.ts";
import { failureOf } from "../support/failure.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import { type TestWorker, WORKER_GRAPHS } from "../support/worker.ts";

/** A pool that counts how often the values of a checkpoint are read. */
function watchedPool(connectionString: string): { pool: pg.Pool; reads: () => number } {
  const pool = new pg.Pool({ connectionString });
  const query = pool.query.bind(pool) as (...statement: unknown[]) => unknown;
  let reads = 0;
  Object.assign(pool, {
    query(...statement: unknown[]) {
      if (JSON.stringify(statement).includes("channel_values")) reads += 1;
      return query(...statement);
    },
  });
  return { pool, reads: () => reads };
}

describe("a thread's state", () => {
  let shared: SharedWorker;
  let worker: TestWorker;
  let client: Client;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });
  beforeEach(async () => {
    client = await worker.client(newCaller("board"));
  });

  const write = (threadId: string, place: object, checkpoint?: Checkpoint) =>
    client.runs.wait(threadId, "board", {
      input: { write: place },
      ...(checkpoint && { checkpoint: { ...checkpoint } }),
    });

  it("of a new thread is empty", async () => {
    const { thread_id } = await client.threads.create();
    const state = await client.threads.getState(thread_id);
    expect(state).to.deep.include({ next: [], tasks: [], parent_checkpoint: null });
    expect(await client.threads.getHistory(thread_id)).to.deep.equal([]);
  });

  it("says what is, what comes next, and where it is in the thread's history", async () => {
    const { thread_id } = await client.threads.create();
    await write(thread_id, { left: "1" });
    const state = await client.threads.getState(thread_id);
    expect(state.values).to.deep.include({ left: "1" });
    expect(state.next).to.deep.equal([]);
    expect(state.checkpoint).to.include({ thread_id, checkpoint_ns: "" });
    expect(state.metadata).to.include({ source: "loop", step: 2 });
    expect(Date.parse(state.created_at ?? "")).to.be.greaterThan(0);
    const same = await client.threads.getState(thread_id, state.checkpoint.checkpoint_id ?? "");
    expect(same).to.deep.equal(state);
    const parent = await client.threads.getState(thread_id, state.parent_checkpoint as Checkpoint);
    expect(parent.next).to.deep.equal(["rest"]);
    expect(parent.checkpoint).to.deep.equal(state.parent_checkpoint);
  });

  it("is read from the database once", async () => {
    const caller = newCaller("board");
    client = await worker.client(caller);
    const { thread_id } = await client.threads.create();
    await write(thread_id, { left: "1" });
    const { pool, reads } = watchedPool(shared.postgres.url("worker"));
    const states = new ThreadService({
      threads: new ThreadStore(pool),
      runs: new RunStore(pool, 1_000),
      pool,
      schema: "worker",
      graphs: await loadGraphs(WORKER_GRAPHS),
    });

    const stays = new AbortController().signal;
    const state = states.state(caller, thread_id, {}, false, stays).finally(() => pool.end());

    expect((await state).values).to.deep.include({ left: "1" });
    expect(reads()).to.equal(1);
  });

  it("has a history, newest first, that can be paged and filtered", async () => {
    const { thread_id } = await client.threads.create();
    await write(thread_id, { left: "1" });
    const run = await client.runs.create(thread_id, "board", {
      input: { write: { left: "2" } },
      metadata: { second: true },
    });
    await client.runs.join(thread_id, run.run_id);
    const all = await client.threads.getHistory(thread_id, { limit: 100 });
    expect(all).to.have.length(8);
    expect(all.map(({ metadata }) => metadata?.step)).to.deep.equal([6, 5, 4, 3, 2, 1, 0, -1]);
    const ids = (states: typeof all) => states.map(({ checkpoint }) => checkpoint.checkpoint_id);
    const history = (options: Parameters<typeof client.threads.getHistory>[1]) =>
      client.threads.getHistory(thread_id, options);
    expect(ids(await history({ limit: 2 }))).to.deep.equal(ids(all).slice(0, 2));
    const before = all[2]?.checkpoint.checkpoint_id ?? "";
    expect(
      ids(await history({ before: { configurable: { checkpoint_id: before } } })),
    ).to.deep.equal(ids(all).slice(3));
    const answer = await worker.call(
      { graphId: "board", tenant: "nobody" },
      "POST",
      `/threads/${thread_id}/history`,
      { before },
    );
    expect(answer.status).to.equal(404);
    expect(ids(await history({ metadata: { second: true }, limit: 100 }))).to.deep.equal(
      ids(all).slice(0, 4),
    );
    expect(ids(await history({ metadata: { source: "input" } }))).to.deep.equal([
      ids(all)[3],
      ids(all)[7],
    ]);
  });

  it("can be changed by hand, in the place of a node", async () => {
    const { thread_id } = await client.threads.create();
    await write(thread_id, { left: "1" });
    const { configurable } = await client.threads.updateState(thread_id, {
      values: { right: "by hand" },
      asNode: "place",
    });
    const state = await client.threads.getState(thread_id);
    expect(state.checkpoint).to.deep.equal(configurable);
    expect(state.values).to.deep.include({ left: "1", right: "by hand" });
    expect(state.next).to.deep.equal(["rest"]);
    const thread = await client.threads.get(thread_id);
    expect(thread.status).to.equal("interrupted");
    expect(thread.values).to.deep.include({ right: "by hand" });
    const done = await client.runs.wait(thread_id, "board", {});
    expect(done).to.deep.include({ left: "1", right: "by hand" });
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
  });

  it("can't be changed in the place of a node that is not there", async () => {
    const { thread_id } = await client.threads.create();
    const failure = await failureOf(
      client.threads.updateState(thread_id, { values: {}, asNode: "nowhere" }),
    );
    expect(failure.status).to.equal(422);
    expect(failure.message).to.include("nowhere");
  });

  it("can't be changed while a run is active", async () => {
    const steps = await worker.client(newCaller("steps"));
    const { thread_id } = await steps.threads.create();
    const name = randomUUID();
    const run = await steps.runs.create(thread_id, "steps", {
      input: { journal: shared.journal.path(name), gate: shared.journal.path(`${name}-gate`) },
    });
    await shared.journal.has(name, "second ");
    const failure = await failureOf(
      steps.threads.updateState(thread_id, { values: { label: "x" }, asNode: "first" }),
    );
    expect(failure.status).to.equal(409);
    await shared.journal.open(`${name}-gate`);
    const values = await steps.runs.join(thread_id, run.run_id);
    expect(values).to.deep.include({ done: ["first ", "second "] });
  });

  it("can be taken up at any earlier point without mixing what came of it", async () => {
    const { thread_id } = await client.threads.create();
    await write(thread_id, { left: "old left" });
    const fork = await client.threads.getState(thread_id);
    await write(thread_id, { left: "main left", right: "main right" });
    const main = await client.threads.getState(thread_id);

    const branch = await write(thread_id, { right: "branch right" }, fork.checkpoint);
    expect(branch).to.deep.include({ left: "old left", right: "branch right" });
    const other = await write(thread_id, { right: "other right" }, fork.checkpoint);
    expect(other).to.deep.include({ left: "old left", right: "other right" });

    const checkpointId = main.checkpoint.checkpoint_id ?? "";
    expect((await client.threads.getState(thread_id, checkpointId)).values).to.deep.equal(
      main.values,
    );
    const back = await write(thread_id, { left: "main again" }, main.checkpoint);
    expect(back).to.deep.include({ left: "main again", right: "main right" });
    expect((await client.threads.getState(thread_id)).values).to.deep.include(back);
    for (const state of await client.threads.getHistory(thread_id, { limit: 100 })) {
      const { left, right } = state.values as { left?: string; right?: string };
      if (right === "branch right" || right === "other right") expect(left).to.equal("old left");
      if (right === "main right") expect(left).to.match(/^main/);
    }
  });

  it("can be changed by hand at an earlier point", async () => {
    const { thread_id } = await client.threads.create();
    await write(thread_id, { left: "1" });
    const { checkpoint } = await client.threads.getState(thread_id);
    await write(thread_id, { left: "2", right: "2" });
    await client.threads.updateState(thread_id, {
      values: { right: "fork" },
      asNode: "place",
      checkpointId: checkpoint.checkpoint_id ?? "",
    });
    expect((await client.threads.getState(thread_id)).values).to.deep.include({
      left: "1",
      right: "fork",
    });
  });

  it("at a checkpoint that does not exist is not found", async () => {
    const { thread_id } = await client.threads.create();
    await write(thread_id, { left: "1" });
    const failure = await failureOf(
      client.runs.wait(thread_id, "board", {
        input: { write: {} },
        checkpointId: randomUUID(),
      }),
    );
    expect(failure.status).to.equal(404);
    for (const call of [
      () => client.threads.getState(thread_id, randomUUID()),
      () => client.threads.updateState(thread_id, { values: {}, checkpointId: randomUUID() }),
    ]) {
      expect((await failureOf(call())).status).to.equal(404);
    }
    expect((await client.threads.getState(thread_id)).values).to.deep.include({ left: "1" });
  });

  it("is stored in the tables of LangGraph's own checkpointer", async () => {
    const database = await shared.postgres.createDatabase();
    const pool = new pg.Pool({ connectionString: database.url() });
    try {
      await new PostgresSaver(pool, undefined, { schema: "reference" }).setup();
      const described = (query: (text: string) => Promise<pg.QueryResult>, schema: string) =>
        query(`
          SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default
            FROM information_schema.columns
            WHERE table_schema = '${schema}'
              AND table_name IN ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes')
            ORDER BY table_name, ordinal_position`);
      const keys = (query: (text: string) => Promise<pg.QueryResult>, schema: string) =>
        query(`
          SELECT conrelid::regclass::text AS "table", pg_get_constraintdef(oid) AS definition
            FROM pg_constraint
            WHERE connamespace = '${schema}'::regnamespace AND contype = 'p'
              AND conrelid::regclass::text ~ 'checkpoints|checkpoint_blobs|checkpoint_writes'
            ORDER BY 1`);
      const reference = (text: string) => pool.query(text);
      for (const look of [described, keys]) {
        const ours = (await look(shared.query, "worker")).rows;
        const theirs = (await look(reference, "reference")).rows;
        expect(ours).to.have.length.above(2);
        const unqualified = JSON.stringify(theirs).replaceAll("reference.", "");
        expect(JSON.stringify(ours).replaceAll("worker.", "")).to.equal(unqualified);
      }
    } finally {
      await pool.end();
    }
  });
});
