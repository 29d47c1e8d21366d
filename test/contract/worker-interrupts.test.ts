import { randomUUID } from "node:crypto";
import type { Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import { collect } from "../support/collect.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

describe("a run that asks a human", () => {
  let shared: SharedWorker;
  let worker: TestWorker;
  let client: Client;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });
  beforeEach(async () => {
    client = await worker.client(newCaller("approval"));
  });

  // biome-ignore lint/suspicious/noExplicitAny: the SDK types values as unknown records.
  const wait = (threadId: string, payload: object): Promise<any> =>
    client.runs.wait(threadId, "approval", payload);

  it("ends with the question, and goes on with the answer", async () => {
    const { thread_id } = await client.threads.create();
    const asked = await wait(thread_id, { input: { amount: 7 } });
    expect(asked).to.deep.include({ amount: 7 });
    expect(asked.__interrupt__).to.have.length(1);
    expect(asked.__interrupt__[0]).to.deep.include({ value: { question: "approve?", amount: 7 } });

    const thread = await client.threads.get(thread_id);
    expect(thread.status).to.equal("interrupted");
    expect(thread.values).to.deep.equal({ amount: 7 });
    const state = await client.threads.getState(thread_id);
    expect(state.next).to.deep.equal(["approve"]);
    expect(state.tasks[0]?.interrupts).to.deep.equal(asked.__interrupt__);
    expect(thread.interrupts).to.deep.equal({ [state.tasks[0]?.id ?? ""]: asked.__interrupt__ });

    const again = await wait(thread_id, { command: { resume: "yes" } });
    expect(again.approved).to.equal("yes");
    expect(again.__interrupt__[0].value.question).to.equal("really?");
    const done = await wait(thread_id, { command: { resume: { sure: true } } });
    expect(done).to.deep.equal({ amount: 7, approved: "yes", confirmed: { sure: true } });
    const settled = await client.threads.get(thread_id);
    expect(settled.status).to.equal("idle");
    expect(settled.interrupts).to.deep.equal({});
  });

  it("takes an answer for one interrupt by its id", async () => {
    const { thread_id } = await client.threads.create();
    const asked = await wait(thread_id, { input: { amount: 1 } });
    const { id } = asked.__interrupt__[0];
    const again = await wait(thread_id, { command: { resume: { [id]: "by id" } } });
    expect(again.approved).to.equal("by id");
  });

  it("says so in the stream", async () => {
    const { thread_id } = await client.threads.create();
    const parts = await collect(
      client.runs.stream(thread_id, "approval", {
        input: { amount: 1 },
        streamMode: ["updates", "values"],
      }),
    );
    for (const mode of ["updates", "values"]) {
      const last = parts.findLast(({ event }) => event === mode)?.data as {
        __interrupt__?: { value: unknown }[];
      };
      expect(last.__interrupt__?.[0]?.value).to.deep.equal({ question: "approve?", amount: 1 });
    }
  });

  it("in a subgraph is asked and answered as well", async () => {
    const family = await worker.client(newCaller("family"));
    const { thread_id } = await family.threads.create();
    // biome-ignore lint/suspicious/noExplicitAny: the SDK types values as unknown records.
    const asked: any = await family.runs.wait(thread_id, "family", { input: { ask: true } });
    expect(asked.__interrupt__[0].value).to.equal("may I?");
    const state = await family.threads.getState(thread_id, undefined, { subgraphs: true });
    expect(state.tasks[0]?.name).to.equal("child");
    const done = await family.runs.wait(thread_id, "family", { command: { resume: "you may" } });
    expect(done).to.deep.include({ path: ["parent", "child you may"] });
  });

  it("at a breakpoint stops before the node, and goes on without an answer", async () => {
    const counter = await worker.client(newCaller("counter"));
    const { thread_id } = await counter.threads.create();
    const stopped = await counter.runs.wait(thread_id, "counter", {
      input: { count: 1 },
      interruptBefore: ["count_up"],
    });
    expect(stopped).to.deep.equal({ count: 1, __interrupt__: [] });
    expect((await counter.threads.get(thread_id)).status).to.equal("interrupted");
    expect((await counter.threads.getState(thread_id)).next).to.deep.equal(["count_up"]);
    const done = await counter.runs.wait(thread_id, "counter", {});
    expect(done).to.deep.equal({ count: 2 });
  });

  it("may be stopped after every node", async () => {
    const steps = await worker.client(newCaller("steps"));
    const { thread_id } = await steps.threads.create();
    const name = randomUUID();
    await steps.runs.wait(thread_id, "steps", {
      input: { journal: shared.journal.path(name) },
      interruptAfter: "*",
    });
    expect(await shared.journal.lines(name)).to.deep.equal(["first "]);
    expect((await steps.threads.get(thread_id)).status).to.equal("interrupted");
  });

  it("may be told to go elsewhere with something new", async () => {
    const { thread_id } = await client.threads.create();
    await wait(thread_id, { input: { amount: 1 } });
    const name = randomUUID();
    const done = await wait(thread_id, {
      command: { goto: "pay", update: { amount: 99, journal: shared.journal.path(name) } },
    });
    expect(done.amount).to.equal(99);
    expect(await shared.journal.lines(name)).to.deep.equal(["pay 99"]);
  });

  it("with a command that means nothing says so", async () => {
    const caller = newCaller("approval");
    const answer = await worker.call(caller, "POST", "/runs/wait", {
      assistant_id: "approval",
      command: {},
    });
    expect((await jsonOf(answer)).__error__.message).to.match(/command/i);
  });

  for (const [what, fields, place] of [
    ["a breakpoint before it", { interrupt_before: ["first", "sceond"] }, ["interrupt_before", 1]],
    ["a breakpoint after it", { interrupt_after: ["sceond"] }, ["interrupt_after", 0]],
    ["a list with a star", { interrupt_after: ["*"] }, ["interrupt_after", 0]],
    ["a command to go there", { command: { goto: "sceond" } }, ["command", "goto"]],
    [
      "a command to send something there",
      { command: { goto: ["first", { node: "sceond", input: {} }] } },
      ["command", "goto", 1],
    ],
  ] as const) {
    it(`is refused where it names a node that is not there, by ${what}`, async () => {
      const caller = newCaller("steps");
      for (const path of ["/runs/wait", "/runs/stream", "/runs", "/runs/batch"]) {
        const run = { assistant_id: "steps", input: {}, ...fields };
        const body = path === "/runs/batch" ? [run] : run;

        const answer = await worker.call(caller, "POST", path, body);

        expect(answer.status, path).to.equal(422);
        const { detail, message } = await jsonOf(answer);
        expect(detail).to.have.length(1);
        expect(detail[0]).to.deep.include({ type: "unknown_node", loc: ["body", ...place] });
        expect(message).to.match(/no node (sceond|\*) in graph steps; it has first, second/);
      }
    });
  }

  it("may name the graph's end, where a command goes to", async () => {
    const { thread_id } = await client.threads.create();
    await wait(thread_id, { input: { amount: 1 } });
    await wait(thread_id, { command: { goto: "__end__", update: { amount: 3 } } });
    expect((await client.threads.getState(thread_id)).values).to.include({ amount: 3 });
  });

  it("that was not asked anything takes an answer as LangGraph does: nothing happens", async () => {
    const { thread_id } = await client.threads.create();
    expect(await wait(thread_id, { command: { resume: "yes" } })).to.deep.equal({});
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
    const answer = await worker.call(newCaller("approval"), "POST", "/runs/wait", {
      assistant_id: "approval",
      command: { resume: "yes" },
    });
    expect(answer.status).to.equal(200);
    expect(await jsonOf(answer)).to.deep.equal({});
  });

  it("that is rolled back has not been answered", async () => {
    const { thread_id } = await client.threads.create();
    const [name, gate] = [randomUUID(), randomUUID()];
    const files = { journal: shared.journal.path(name), gate: shared.journal.path(gate) };
    await wait(thread_id, { input: { amount: 5, ...files } });
    const before = await client.threads.getState(thread_id);
    const run = await client.runs.create(thread_id, "approval", { command: { resume: "yes" } });
    await shared.journal.has(name, "prepare");
    await client.runs.cancel(thread_id, run.run_id, true, "rollback");

    expect(await client.threads.getState(thread_id)).to.deep.equal(before);
    expect((await client.threads.get(thread_id)).status).to.equal("interrupted");
    await shared.journal.open(gate);
    const asked = await wait(thread_id, {});
    expect(asked).not.to.have.property("approved");
    expect(asked.__interrupt__[0].value.question).to.equal("approve?");
  });
});
