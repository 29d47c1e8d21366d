import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { ASSERTION_HEADER } from "../../runtime/common/identity.ts";
import { newCaller, sharedWorker } from "../support/shared-worker.ts";
import { assertionHeaders, jsonOf, type TestWorker } from "../support/worker.ts";

describe("what a client can bring into a graph", () => {
  let worker: TestWorker;

  before(async () => {
    worker = (await sharedWorker()).worker;
  });

  it("the client's x- headers reach the graph, those of the platform and keys do not", async () => {
    const caller = newCaller("config");
    const answer = await worker.call(
      caller,
      "POST",
      "/runs/wait",
      { assistant_id: "config", input: {}, config: { configurable: { "x-both": "body" } } },
      {
        headers: {
          "X-Customer": "c-7",
          "x-both": "header",
          "x-api-key": "secret",
          "x-tenant-id": "someone",
          "x-service-key": "secret",
          "x-platform-other": "secret",
          "content-language": "en",
        },
      },
    );
    const { configurable } = await jsonOf(answer);
    expect(configurable).to.include({ "x-customer": "c-7", "x-both": "body" });
    const assertion = (await assertionHeaders(caller))[ASSERTION_HEADER] ?? "";
    expect(JSON.stringify(configurable)).not.to.match(/secret|someone|content-language/);
    expect(JSON.stringify(configurable)).not.to.include(assertion);
  });

  it("LangGraph's own switches and the run's identity can't be set from outside", async () => {
    const caller = newCaller("config");
    const client = await worker.client(caller);
    const { thread_id } = await client.threads.create();
    const theirs = {
      thread_id: randomUUID(),
      run_id: "mine",
      graph_id: "other",
      assistant_id: "other",
      __pregel_checkpointer: { put: 1 },
      __pregel_resuming: true,
      __pregel_read: "x",
      __proto__x: 1,
      mine: "yes",
    };
    // biome-ignore lint/suspicious/noExplicitAny: the SDK types values as unknown records.
    const values: any = await client.runs.wait(thread_id, "config", {
      input: {},
      config: { configurable: theirs },
      checkpoint: { checkpoint_ns: "", __pregel_read: "x", run_id: "mine" } as never,
    });
    expect(values.configurable).to.include({ mine: "yes", thread_id, graph_id: "config" });
    expect(values.configurable.run_id).to.match(/^[0-9a-f-]{36}$/);
    expect(values.configurable.assistant_id).not.to.equal("other");
    const [run] = await client.runs.list(thread_id);
    expect(JSON.stringify(run)).not.to.include("__pregel");
    expect((await client.threads.getState(thread_id)).values).to.deep.equal(values);
  });

  it("a client can't have LangChain's classes made, except for messages", async () => {
    const made = (id: unknown[], kwargs: unknown = { content: "x" }) => ({
      lc: 1,
      type: "constructor",
      id,
      kwargs,
    });
    const caller = newCaller("chat");
    const wait = (content: unknown) =>
      worker.call(caller, "POST", "/runs/wait", {
        assistant_id: "chat",
        input: { messages: [content] },
      });
    for (const id of [
      ["evil"],
      [],
      ["langchain_core", "messages", "Nothing"],
      ["langchain_core", "messages", "filterMessages"],
      ["langchain_core", "prompts", "prompt", "PromptTemplate"],
      ["langchain_core", "tracers", "tracer_langchain", "LangChainTracer"],
    ]) {
      const answer = await wait(made(id));
      expect(answer.status, id.join("/")).to.equal(422);
      expect((await jsonOf(answer)).detail[0].loc).to.deep.equal(["body", "input", "messages", 0]);
    }
    const human = ["langchain_core", "messages", "HumanMessage"];
    expect((await wait(made(human, { content: "x", name: made(["evil"]) }))).status).to.equal(422);
    const hidden =
      '{"assistant_id":"chat","input":{"\\u006cc":1,"type":"constructor","id":["evil"]}}';
    expect((await worker.call(caller, "POST", "/runs/wait", hidden)).status).to.equal(422);

    const { messages } = await jsonOf(wait(made(human, { content: "hi" })));
    expect(messages[0]).to.include({ type: "human", content: "hi" });
  });

  it("a client can't have its data turned into what a checkpoint writes as an object", async () => {
    const caller = newCaller("config");
    const made = (id: string, args: unknown[], method?: string) => ({
      ...{ lc: 2, type: "constructor", id: [id], args },
      ...(method && { method }),
    });
    for (const given of [
      made("Set", [[1]]),
      made("Map", [[["a", 1]]]),
      made("RegExp", ["(a+)+$", ""]),
      made("Error", ["x"]),
      made("Uint8Array", [[1]], "from"),
      made("Function", ["return process.env"]),
      { lc: 2, type: "undefined" },
      { lc: 2, type: "delta_snapshot", value: 1 },
    ]) {
      const body = { assistant_id: "config", input: { given: [given] } };
      const answer = await worker.call(caller, "POST", "/runs/wait", body);
      expect(answer.status, JSON.stringify(given)).to.equal(422);
      expect((await jsonOf(answer)).detail[0].loc).to.deep.equal(["body", "input", "given", 0]);
    }
  });

  for (const [spelling, key] of [
    ["as it is", "__proto__"],
    ["with an escape", "\\u005f_proto__"],
    ["with an escape in capitals", "__prot\\u006F__"],
    ["in escapes", "\\u005f\\u005f\\u0070\\u0072\\u006f\\u0074\\u006f\\u005f\\u005f"],
  ]) {
    it(`a client can't complete such an object by its prototype, written ${spelling}`, async () => {
      const body = `{"assistant_id":"config","input":{"given":[{"type":"undefined","${key}":{}}]}}`;

      const answer = await worker.call(newCaller("config"), "POST", "/runs/wait", body);

      expect(answer.status).to.equal(422);
      const { detail, message } = await jsonOf(answer);
      expect(detail[0].loc).to.deep.equal(["body", "input", "given", 0, "__proto__"]);
      expect(message).to.include("input.given.0.__proto__");
    });
  }

  it("input that looks like LangChain's own objects stays what it is", async () => {
    const client = await worker.client(newCaller("config"));
    const { thread_id } = await client.threads.create();
    const given = [
      { lc: 1, type: "secret", id: ["ASSERTION_PUBLIC_KEY"] },
      { lc: 1, type: "secret", id: ["DATABASE_URL"] },
      { lc: 3, type: "constructor", id: ["Set"], args: [[1]] },
    ];
    await client.runs.wait(thread_id, "config", { input: { given } });
    const { values } = await client.threads.getState(thread_id);
    expect(JSON.stringify(values)).not.to.match(/postgres:|BEGIN PUBLIC KEY|PATH/);
    expect((values as { given: unknown }).given).to.deep.equal(given);
    expect((await worker.call(undefined, "GET", "/live")).status).to.equal(200);
  });
});
