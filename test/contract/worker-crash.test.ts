import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { jsonOf } from "../support/worker.ts";
import { expectRisingIds, sentEvents } from "../support/worker-events.ts";
import { WorkerPair } from "../support/worker-pair.ts";

const caller = { graphId: "steps" };

describe("a worker that is killed", () => {
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
  const finished = ["first a", "second a"];

  it("leaves a run that goes on from its last checkpoint, for whoever waits", async () => {
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    const answer = await pair.a.call(caller, "POST", `/threads/${thread_id}/runs/wait`, {
      assistant_id: "steps",
      input: input(),
    });
    const runId = answer.headers.get("content-location")?.split("/").at(-1) ?? "";
    await pair.journal.has(journal, "second a");
    await pair.checkpointed(runId, 1);
    await pair.a.kill();
    await failureOf(answer.text());

    await pair.a.start();
    await pair.journal.open(gate);
    const location = answer.headers.get("location") ?? "";
    const values = await jsonOf(pair.a.call(caller, "GET", location));
    expect(values.done).to.deep.equal(finished);
    expect(await lines()).to.deep.equal(["first a", "second a", "second a", "second-ends a"]);
    const after = await pair.a.client(caller);
    expect((await after.runs.get(thread_id, runId)).status).to.equal("success");
    expect((await after.threads.get(thread_id)).status).to.equal("idle");
    expect((await after.threads.getState(thread_id)).values).to.deep.include({ done: finished });
  });

  it("leaves a run of its own that goes on as well, and then nothing", async () => {
    const answer = await pair.a.call(caller, "POST", "/runs/wait", {
      assistant_id: "steps",
      input: input(),
    });
    await pair.journal.has(journal, "second a");
    await pair.checkpointed(answer.headers.get("content-location")?.split("/").at(-1) ?? "", 1);
    await pair.a.kill();
    await pair.a.start();
    await pair.journal.open(gate);
    const values = await jsonOf(pair.a.call(caller, "GET", answer.headers.get("location") ?? ""));
    expect(values.done).to.deep.equal(finished);
    expect(await lines()).to.include.members(["second-ends a"]);
    const threadId = answer.headers.get("content-location")?.split("/")[2];
    const left = await pair.query(
      "SELECT 1 FROM worker.checkpoints WHERE thread_id LIKE '%' || $1",
      [threadId],
    );
    expect(left.rows).to.deep.equal([]);
  });

  it("is no end for the SDK's stream, which goes on by itself", async () => {
    const client = await pair.a.patientClient(caller);
    const { thread_id } = await client.threads.create();
    const parts: { id: number; event: string; data: unknown }[] = [];
    let runId: string | undefined;
    const streaming = (async () => {
      const stream = client.runs.stream(thread_id, "steps", {
        input: input(),
        streamMode: ["updates", "values"],
        onRunCreated: ({ run_id }) => {
          runId = run_id;
        },
      });
      for await (const { id, event, data } of stream) parts.push({ id: Number(id), event, data });
    })();
    await pair.journal.has(journal, "second a");
    await eventually("the first node's update came", () => parts.length >= 3);
    await pair.checkpointed(runId ?? "", 1);
    await pair.a.kill();
    await pair.a.start();
    await pair.journal.open(gate);
    await streaming;
    expectRisingIds(parts);
    const metadata = parts.filter(({ event }) => event === "metadata").map(({ data }) => data);
    expect(metadata).to.have.length(2);
    expect(metadata[1]).to.include({ attempt: 2 });
    const updates = parts.filter(({ event }) => event === "updates").map(({ data }) => data);
    expect(updates).to.deep.equal([
      { first: { done: ["first a"] } },
      { second: { done: ["second a"] } },
    ]);
    expect(parts.at(-1)?.data).to.deep.include({ done: finished });
  });

  it("is replaced by the other replica", async () => {
    await pair.b.start();
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "steps", { input: input() });
    await pair.checkpointed(run.run_id, 1);
    const following = await pair.b.call(
      caller,
      "GET",
      `/threads/${thread_id}/runs/${run.run_id}/stream`,
    );
    await pair.a.kill();
    await pair.journal.open(gate);
    const events = await collect(sentEvents(following));
    expectRisingIds(events);
    expect(events.at(-1)?.data).to.deep.include({ done: finished });
    const other = await pair.b.client(caller);
    expect((await other.runs.get(thread_id, run.run_id)).status).to.equal("success");
    expect((await lines()).filter((line) => line === "first a")).to.have.length(1);
  });

  it("again and again is told as an error, and the thread is free", async () => {
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "steps", { input: input() });
    await pair.journal.has(journal, "second a");
    await pair.checkpointed(run.run_id, 1);
    await pair.a.kill();
    await pair.a.start();
    await eventually(
      "it was started again",
      async () => (await lines()).filter((line) => line === "second a").length === 2,
    );
    await pair.a.kill();
    await pair.a.start();

    const after = await pair.a.client(caller);
    const following = await pair.a.call(
      caller,
      "GET",
      `/threads/${thread_id}/runs/${run.run_id}/stream`,
    );
    const error = {
      error: "WorkerLost",
      message: "The run was started 2 times and no worker survived it.",
    };
    const events = await collect(sentEvents(following));
    expect(events.at(-1)).to.deep.include({ event: "error", data: error });
    expectRisingIds(events);
    expect(await after.runs.join(thread_id, run.run_id)).to.deep.equal({ __error__: error });
    expect((await after.runs.get(thread_id, run.run_id)).status).to.equal("error");
    const thread = await after.threads.get(thread_id);
    expect(thread).to.deep.include({ status: "error", error });
    const values = await after.runs.wait(thread_id, "steps", {
      input: { ...input("b"), gate: null },
    });
    expect(values).to.deep.include({ done: ["first a", "first b", "second b"] });
    expect((await after.threads.get(thread_id)).status).to.equal("idle");
  });

  it("under load loses no run and does none twice", async () => {
    await pair.b.start();
    const threads = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const client = await pair.b.client(caller);
        return (await client.threads.create()).thread_id;
      }),
    );
    const labels = Array.from({ length: 4 }, (_, n) => `run ${n}`);
    const accepted: { thread_id: string; run_id: string }[] = [];
    const b = await pair.b.client(caller);
    for (const [index, label] of labels.entries()) {
      const a = await pair.a.client(caller);
      const runs = await Promise.all(
        threads.map((thread_id, n) =>
          (n % 2 === 0 ? a : b).runs.create(thread_id, "steps", {
            input: { journal: pair.journal.path(thread_id), gate: null, label },
          }),
        ),
      );
      accepted.push(...runs);
      if (index % 2 === 1) {
        await pair.a.kill();
        await pair.a.start();
      }
    }
    for (const { thread_id, run_id } of accepted) await b.runs.join(thread_id, run_id);
    for (const thread_id of threads) {
      const { values } = await b.threads.getState(thread_id);
      expect((values as { done: string[] }).done).to.deep.equal(
        labels.flatMap((label) => [`first ${label}`, `second ${label}`]),
      );
      const runs = await b.runs.list(thread_id, { limit: 100 });
      expect(runs.map(({ status }) => status)).to.deep.equal(labels.map(() => "success"));
      expect((await b.threads.get(thread_id)).status).to.equal("idle");
    }
  });
});
