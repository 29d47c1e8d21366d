import { expect } from "chai";
import { newCaller, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

const graphId = "made_graph.v2";

/** LangGraph's server calls such a function for every run and every look at a state; so do we. */
describe("a graph that is exported as a function", () => {
  let worker: TestWorker;

  before(async () => {
    worker = (await sharedWorker()).worker;
  });

  it("is made for each run, with its configuration", async () => {
    const client = await worker.client(newCaller(graphId));
    for (const node of ["red", "blue"]) {
      const { thread_id } = await client.threads.create();
      const config = { configurable: { node } };
      const values = await client.runs.wait(thread_id, graphId, { input: {}, config });
      expect(values).to.deep.equal({ nodes: [node, thread_id] });
    }
  });

  it("is what its thread's last run saw, for whoever looks at the state", async () => {
    const client = await worker.client(newCaller(graphId));
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, graphId, {
      input: {},
      config: { configurable: { node: "green" } },
      interruptBefore: ["green"],
    });
    expect((await client.threads.getState(thread_id)).next).to.deep.equal(["green"]);
    expect(await client.threads.getHistory(thread_id)).not.to.have.length(0);
  });

  it("has the nodes that it has for this run", async () => {
    const answer = await worker.call(newCaller(graphId), "POST", "/runs/wait", {
      assistant_id: graphId,
      input: {},
      config: { configurable: { node: "red" } },
      interrupt_before: ["blue"],
    });
    expect(answer.status).to.equal(422);
    expect((await jsonOf(answer)).message).to.include("it has red");
  });

  it("that fails is the run's failure, by what it says", async () => {
    for (const more of [{}, { interrupt_before: ["red"] }]) {
      const answer = await worker.call(newCaller(graphId), "POST", "/runs/wait", {
        assistant_id: graphId,
        input: {},
        ...more,
      });
      expect(await jsonOf(answer)).to.deep.equal({
        __error__: { error: "Error", message: "configurable.node is missing" },
      });
    }
  });
});
