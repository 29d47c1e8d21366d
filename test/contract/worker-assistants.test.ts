import { expect } from "chai";
import { failureOf } from "../support/failure.ts";
import { newCaller, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

describe("what a worker tells about itself", () => {
  let worker: TestWorker;

  before(async () => {
    worker = (await sharedWorker()).worker;
  });

  it("is one assistant for the graph that is called, with the same id always", async () => {
    const client = await worker.client(newCaller("counter"));
    const found = await client.assistants.search();
    expect(found).to.have.length(1);
    expect(found[0]).to.deep.include({
      // UUIDv5 of the graph's id in LangGraph's namespace, as every server of this wire has it.
      assistant_id: "09d6caf4-2ef3-5a8b-b1a7-114690ed5d45",
      graph_id: "counter",
      name: "counter",
      version: 1,
      metadata: { created_by: "system" },
    });
    expect(await client.assistants.get("counter")).to.deep.equal(found[0]);
    expect(await client.assistants.get(found[0]?.assistant_id ?? "")).to.deep.equal(found[0]);
    expect(await client.assistants.count()).to.equal(1);
    expect(await client.assistants.count({ graphId: "board" })).to.equal(0);
    expect(await client.assistants.search({ graphId: "board" })).to.deep.equal([]);
    expect(await client.assistants.search({ metadata: { created_by: "system" } })).to.have.length(
      1,
    );
    expect(await client.assistants.search({ offset: 1 })).to.deep.equal([]);
    const caller = newCaller("counter");
    const page = await worker.call(caller, "POST", "/assistants/search", { offset: 1 });
    expect(page.headers.get("x-pagination-total")).to.equal("1");
    expect((await failureOf(client.assistants.get("nobody"))).status).to.equal(404);
  });

  it("is the drawing of its graph", async () => {
    const client = await worker.client(newCaller("steps"));
    const graph = await client.assistants.getGraph("steps");
    expect(graph.nodes.map(({ id }) => id)).to.include.members(["__start__", "first", "second"]);
    const edges = graph.edges.map(({ source, target }) => `${source} → ${target}`);
    expect(edges).to.include("first → second");
  });

  it("is that it lives and is ready, to anybody", async () => {
    for (const path of ["/ok", "/live", "/ready", "/health"]) {
      const answer = await worker.call(undefined, "GET", path);
      expect(answer.status, path).to.equal(200);
    }
    expect(await jsonOf(worker.call(undefined, "GET", "/ok"))).to.deep.equal({ ok: true });
  });

  it("is its version and the description of its interface", async () => {
    const caller = newCaller("counter");
    const info = await jsonOf(worker.call(caller, "GET", "/info"));
    expect(info.version).to.match(/^\d+\.\d+\.\d+$/);
    expect(info.flags).to.include({ assistants: true });
    const document = await jsonOf(worker.call(caller, "GET", "/openapi.json"));
    expect(document.openapi).to.equal("3.1.0");
    const body = document.paths["/runs/wait"].post.requestBody.content["application/json"].schema;
    expect(body.required).to.deep.equal(["assistant_id"]);
    for (const [path, operations] of Object.entries<object>(document.paths)) {
      for (const method of Object.keys(operations)) {
        const address = path.replaceAll(/\{\w+\}/g, "00000000-0000-0000-0000-000000000000");
        const answer = await worker.call(
          caller,
          method.toUpperCase(),
          address,
          method === "get" ? undefined : "[",
        );
        const { message = "" } = await jsonOf(answer);
        expect(message, `${method} ${path} exists`).not.to.include("There is no");
      }
    }
  });

  it("is that there is nothing, where there is nothing", async () => {
    const answer = await worker.call(newCaller("counter"), "GET", "/nothing/here");
    expect(answer.status).to.equal(404);
    expect(await answer.json()).to.deep.equal({
      error: "not_found",
      message: "There is no GET /nothing/here. See /openapi.json.",
      details: null,
    });
  });
});
