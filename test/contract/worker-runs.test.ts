import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

const RUN_PLACE = /^\/threads\/[0-9a-f-]{36}\/runs\/[0-9a-f-]{36}$/;

describe("a run", () => {
  let shared: SharedWorker;
  let worker: TestWorker;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });

  it("answers with the bare state and says where the run is", async () => {
    const caller = newCaller("counter");
    const answer = await worker.call(caller, "POST", "/runs/wait", {
      assistant_id: "counter",
      input: { count: 41 },
    });
    expect(answer.status).to.equal(200);
    expect(answer.headers.get("content-type")).to.match(/^application\/json/);
    const place = answer.headers.get("content-location") ?? "";
    expect(place).to.match(RUN_PLACE);
    expect(answer.headers.get("location")).to.equal(`${place}/join`);
    expect(await answer.json()).to.deep.equal({ count: 42 });
    expect(await (await worker.call(caller, "GET", `${place}/join`)).json()).to.deep.equal({
      count: 42,
    });
  });

  it("leaves nothing of its thread behind, unless it is to be kept", async () => {
    const client = await worker.client(newCaller("counter"));
    const threads: string[] = [];
    const onRunCreated = (run: { thread_id?: string }) => {
      threads.push(run.thread_id ?? "");
    };
    await client.runs.wait(null, "counter", { input: { count: 1 }, onRunCreated });
    const failure = await failureOf(client.threads.get(threads[0] ?? ""));
    expect(failure.status).to.equal(404);

    const keptRun = { input: { count: 1 }, onCompletion: "keep" as const, onRunCreated };
    await client.runs.wait(null, "counter", keptRun);
    const kept = await client.threads.get(threads[1] ?? "");
    expect(kept.status).to.equal("idle");
    expect(kept.values).to.deep.equal({ count: 2 });
    const { rows } = await shared.query(
      `SELECT count(*)::integer AS left FROM worker.checkpoints c
         WHERE NOT EXISTS (SELECT 1 FROM worker.thread t WHERE c.thread_id LIKE '%' || t.thread_id)`,
    );
    expect(rows).to.deep.equal([{ left: 0 }]);
  });

  it("goes on from where its thread is", async () => {
    const client = await worker.client(newCaller("counter"));
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "counter", { input: { count: 10 } });
    const values = await client.runs.wait(thread_id, "counter", { input: { count: 100 } });
    expect(values).to.deep.equal({ count: 112 });
  });

  it("takes the assistant's id as well as the graph's", async () => {
    const client = await worker.client(newCaller("counter"));
    const [assistant] = await client.assistants.search();
    const values = await client.runs.wait(null, assistant?.assistant_id ?? "", {
      input: { count: 1 },
    });
    expect(values).to.deep.equal({ count: 2 });
  });

  it("keeps the line alive with newlines while it takes its time", async () => {
    const caller = newCaller("steps");
    const name = randomUUID();
    const answer = await worker.call(caller, "POST", "/runs/wait", {
      assistant_id: "steps",
      input: { journal: shared.journal.path(name), gate: shared.journal.path(`${name}-gate`) },
    });
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    const first = await reader?.read();
    expect(first?.value).to.equal("\n");
    await shared.journal.open(`${name}-gate`);
    let rest = "";
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      rest += part.value;
    }
    expect(JSON.parse(rest).done).to.deep.equal(["first ", "second "]);
  });

  it("that fails says what the graph said, and the SDK raises it", async () => {
    const caller = newCaller("failing");
    const client = await worker.client(caller);
    const failure = await failureOf(client.runs.wait(null, "failing", { input: { how: "throw" } }));
    expect(failure.message).to.equal("PaymentDeclined: the card was declined");

    const { thread_id } = await client.threads.create();
    const answer = await worker.call(caller, "POST", `/threads/${thread_id}/runs/wait`, {
      assistant_id: "failing",
      input: { how: "throw" },
    });
    expect(answer.status).to.equal(200);
    expect(await answer.json()).to.deep.equal({
      __error__: { error: "PaymentDeclined", message: "the card was declined" },
    });
    const thread = await client.threads.get(thread_id);
    expect(thread.status).to.equal("error");
    expect(thread.values).to.deep.equal({ how: "throw", result: "prepared" });
    const [run] = await client.runs.list(thread_id);
    expect(run?.status).to.equal("error");
    const again = await client.runs.wait(thread_id, "failing", { input: { how: "well" } });
    expect(again).to.deep.equal({ how: "well", result: "fine" });
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
  });

  for (const [oddity, message] of [
    ["nothing", /undefined/],
    ["null", /null/],
    ["bigint", /12/],
    ["symbol", /Symbol\(odd\)/],
    ["circular", /a loop.*Circular/s],
    ["no prototype", /bare/],
    ["a trap", /./],
  ] as const) {
    it(`whose graph throws ${oddity} says what that was`, async () => {
      const caller = newCaller("failing");
      const client = await worker.client(caller);
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "failing", {
        input: { how: `throw ${oddity}` },
      });
      const joined = await jsonOf(
        worker.call(caller, "GET", `/threads/${thread_id}/runs/${run.run_id}/join`),
      );
      expect(joined.__error__.error).to.be.a("string").and.not.equal("");
      expect(joined.__error__.message).to.match(message);
      expect((await client.runs.get(thread_id, run.run_id)).status).to.equal("error");
      expect((await client.threads.get(thread_id)).error).to.deep.equal(joined.__error__);
      const events = await worker.call(caller, "GET", `/runs/${run.run_id}/stream`);
      expect(await events.text()).to.include("event: error");
    });
  }

  for (const how of ["throw-text", "bigint", "circular"]) {
    it(`whose graph does something odd (${how}) fails, and the worker lives`, async () => {
      const caller = newCaller("failing");
      const answer = await worker.call(caller, "POST", "/runs/wait", {
        assistant_id: "failing",
        input: { how },
      });
      const { __error__: error } = await jsonOf(answer);
      expect(error.error).to.be.a("string");
      expect(error.message).to.be.a("string").and.not.equal("");
      const after = await worker.call(caller, "POST", "/runs/wait", {
        assistant_id: "failing",
        input: { how: "well" },
      });
      expect(await after.json()).to.deep.equal({ how: "well", result: "fine" });
    });
  }

  it("whose graph forgets a promise that fails does not take the worker with it", async () => {
    const client = await worker.client(newCaller("failing"));
    const { pid } = worker;
    const values = await client.runs.wait(null, "failing", {
      input: { how: "forgotten-promise" },
    });
    expect(values).to.deep.equal({ how: "forgotten-promise", result: "fine" });
    await eventually("the log tells of it", () => worker.log.includes("nobody waits for me"));
    expect(() => process.kill(pid, 0)).not.to.throw();
    expect((await worker.call(undefined, "GET", "/live")).status).to.equal(200);
  });

  it("with neither input nor anything to go on from says so", async () => {
    const client = await worker.client(newCaller("counter"));
    const { thread_id } = await client.threads.create();
    const failure = await failureOf(client.runs.wait(thread_id, "counter", {}));
    expect(failure.message).to.match(/input/i);
  });

  it("beyond its recursion limit says so", async () => {
    const client = await worker.client(newCaller("steps"));
    const failure = await failureOf(
      client.runs.wait(null, "steps", {
        input: { journal: shared.journal.path(randomUUID()) },
        config: { recursion_limit: 1 },
      }),
    );
    expect(failure.message).to.match(/^GraphRecursionError: /);
  });

  it("on a thread that is not there is refused, or makes the thread if asked to", async () => {
    const client = await worker.client(newCaller("counter"));
    const threadId = randomUUID();
    const failure = await failureOf(client.runs.wait(threadId, "counter", { input: {} }));
    expect(failure.status).to.equal(404);
    const values = await client.runs.wait(threadId, "counter", {
      input: { count: 1 },
      ifNotExists: "create",
    });
    expect(values).to.deep.equal({ count: 2 });
    const thread = await client.threads.get(threadId);
    expect(thread.metadata).to.deep.include({ graph_id: "counter" });
  });

  it("gets its metadata, tags and context to the graph", async () => {
    const client = await worker.client(newCaller("config"));
    const values = await client.runs.wait(null, "config", {
      input: { given: 1 },
      metadata: { of_run: 1 },
      config: { tags: ["a-tag"], configurable: { model: "small" } },
      context: { user: "u1" },
    });
    expect(values).to.have.nested.property("configurable.model", "small");
    expect(values).to.have.nested.property("configurable.graph_id", "config");
    expect(values).to.have.nested.property("metadata.of_run", 1);
    expect(values).to.have.property("tags").that.includes("a-tag");
    expect(values).to.have.deep.property("context", { user: "u1" });
  });
});
