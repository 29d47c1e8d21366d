import { createHmac, generateKeyPairSync, randomUUID } from "node:crypto";
import { expect } from "chai";
import { importPKCS8, SignJWT, UnsecuredJWT } from "jose";
import { ASSERTION_HEADER, createAssertionSigner } from "../../runtime/common/identity.ts";
import { failureOf } from "../support/failure.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import {
  ASSERTION_PRIVATE_KEY,
  assertionHeaders,
  jsonOf,
  type TestWorker,
} from "../support/worker.ts";

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

  it("a call that did not come through the gateway is a 401 with the usual body", async () => {
    for (const path of ["/info", "/openapi.json", "/threads/search", "/runs/wait", "/nothing"]) {
      const answer = await worker.call(undefined, "POST", path, {});
      expect(answer.status, path).to.equal(401);
      expect(await answer.json()).to.deep.equal({
        error: "unauthorized",
        message: "This call did not come through the platform's gateway.",
        details: null,
      });
    }
  });

  it("only a valid assertion for a graph of this worker counts", async () => {
    const key = await importPKCS8(ASSERTION_PRIVATE_KEY, "EdDSA");
    const claims = { tenant: "acme" };
    const token = () =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: "EdDSA" })
        .setIssuer("platform-gateway")
        .setSubject("u")
        .setAudience("counter")
        .setIssuedAt()
        .setExpirationTime("60s");
    const foreign = await createAssertionSigner(
      generateKeyPairSync("ed25519", {
        privateKeyEncoding: { type: "pkcs8", format: "pem" },
        publicKeyEncoding: { type: "spki", format: "pem" },
      }).privateKey,
    );
    const good = await token().sign(key);
    const [header, payload] = good.split(".");
    const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
    const hmac = `${encoded({ alg: "HS256" })}.${payload}`;
    const wrong: Record<string, string> = {
      "of another gateway": await foreign.sign({ tenant: "acme", subject: "u" }, "counter"),
      "for a graph that is not served": await token().setAudience("unknown").sign(key),
      "for two graphs": await token().setAudience(["counter", "board"]).sign(key),
      "that has expired": await token().setExpirationTime("-1s").sign(key),
      "from another issuer": await token().setIssuer("somebody").sign(key),
      "that is not signed": new UnsecuredJWT(claims)
        .setIssuer("platform-gateway")
        .setSubject("u")
        .setAudience("counter")
        .setIssuedAt()
        .setExpirationTime("60s")
        .encode(),
      "with a shared secret": `${hmac}.${createHmac("sha256", ASSERTION_PRIVATE_KEY).update(hmac).digest("base64url")}`,
      "whose claims were changed": `${header}.${encoded({ ...claims, aud: "counter", tenant: "b" })}.${good.split(".")[2]}`,
      "without a tenant": await new SignJWT({})
        .setProtectedHeader({ alg: "EdDSA" })
        .setIssuer("platform-gateway")
        .setSubject("u")
        .setAudience("counter")
        .setIssuedAt()
        .setExpirationTime("60s")
        .sign(key),
      "that is no token": "Bearer x.y.z",
    };
    const info = (assertion: string) =>
      worker.call(undefined, "GET", "/info", undefined, {
        headers: { [ASSERTION_HEADER]: assertion },
      });
    expect((await info(good)).status).to.equal(200);
    for (const [what, assertion] of Object.entries(wrong)) {
      const answer = await info(assertion);
      expect(answer.status, `an assertion ${what}`).to.equal(401);
      expect(await jsonOf(answer)).to.include({ error: "unauthorized", details: null });
    }
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

  it("input that looks like LangChain's own objects stays what it is", async () => {
    const client = await worker.client(newCaller("config"));
    const { thread_id } = await client.threads.create();
    const given = [
      { lc: 1, type: "secret", id: ["ASSERTION_PUBLIC_KEY"] },
      { lc: 1, type: "secret", id: ["DATABASE_URL"] },
      { lc: 2, type: "constructor", id: ["Function"], args: ["return process.env"] },
    ];
    await client.runs.wait(thread_id, "config", { input: { given } });
    const { values } = await client.threads.getState(thread_id);
    expect(JSON.stringify(values)).not.to.match(/postgres:|BEGIN PUBLIC KEY|PATH/);
    expect((values as { given: unknown }).given).to.deep.equal(given);
    expect((await worker.call(undefined, "GET", "/live")).status).to.equal(200);
  });
});
