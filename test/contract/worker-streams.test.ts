import { expect } from "chai";
import { collect } from "../support/collect.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import type { TestWorker } from "../support/worker.ts";
import { expectRisingIds, type SentEvent, sentEvents } from "../support/worker-events.ts";

describe("a run's stream", () => {
  let shared: SharedWorker;
  let worker: TestWorker;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });

  /** All events of a run of its own. */
  async function eventsOf(graphId: string, body: object): Promise<SentEvent[]> {
    const answer = await worker.call(newCaller(graphId), "POST", "/runs/stream", {
      assistant_id: graphId,
      ...body,
    });
    expect(answer.status).to.equal(200);
    const events = await collect(sentEvents(answer));
    expectRisingIds(events);
    return events;
  }

  const named = (events: SentEvent[]) => events.map(({ event }) => event);

  it("begins with the run's metadata and ends with its last values", async () => {
    const caller = newCaller("counter");
    const answer = await worker.call(caller, "POST", "/runs/stream", {
      assistant_id: "counter",
      input: { count: 1 },
    });
    expect(answer.headers.get("content-type")).to.equal("text/event-stream; charset=utf-8");
    expect(answer.headers.get("cache-control")).to.equal("no-store");
    const place = answer.headers.get("content-location");
    expect(answer.headers.get("location")).to.equal(`${place}/stream`);
    const events = await collect(sentEvents(answer));
    expect(named(events)).to.deep.equal(["metadata", "values", "values"]);
    expect(events[0]?.data).to.deep.equal({ run_id: place?.split("/").at(-1), attempt: 1 });
    expect(events.at(-1)?.data).to.deep.equal({ count: 2 });
  });

  it("is what the SDK expects", async () => {
    const client = await worker.client(newCaller("counter"));
    const parts = await collect(
      client.runs.stream(null, "counter", { input: { count: 1 }, streamMode: "updates" }),
    );
    expect(parts.map(({ event }) => event)).to.deep.equal(["metadata", "updates"]);
    expect(parts[1]?.data).to.deep.equal({ count_up: { count: 1 } });
  });

  it("has every mode that was asked for", async () => {
    const events = await eventsOf("counter", {
      input: { count: 1 },
      stream_mode: ["updates", "values", "tasks", "checkpoints", "debug", "custom"],
    });
    const modes = new Set(named(events));
    expect([...modes]).to.have.members([
      "metadata",
      "updates",
      "values",
      "tasks",
      "checkpoints",
      "debug",
    ]);
  });

  it("shows checkpoints and debug records without the server's own objects", async () => {
    const events = await eventsOf("counter", {
      input: { count: 1 },
      stream_mode: ["checkpoints", "debug"],
    });
    const checkpoint = events.findLast(({ event }) => event === "checkpoints")?.data;
    expect(checkpoint.values).to.deep.equal({ count: 2 });
    expect(checkpoint.config.configurable).to.have.property("checkpoint_id");
    expect(checkpoint.checkpoint.checkpoint_id).to.equal(
      checkpoint.config.configurable.checkpoint_id,
    );
    expect(JSON.stringify(events)).not.to.match(/__pregel_(?!pull|push)/);
  });

  it("shows tasks as they start and end", async () => {
    const events = await eventsOf("counter", { input: { count: 1 }, stream_mode: "tasks" });
    const [started, ended] = events.slice(1);
    expect(started?.data).to.deep.include({ name: "count_up" });
    expect(ended?.data).to.deep.include({ name: "count_up", id: started?.data.id });
  });

  it("carries a model's tokens as tuples", async () => {
    const events = await eventsOf("chat", {
      input: { messages: [{ role: "human", content: "hi" }] },
      stream_mode: "messages-tuple",
    });
    const tuples = events.slice(1);
    expect(new Set(named(tuples))).to.deep.equal(new Set(["messages"]));
    expect(tuples.map(({ data }) => data[0].content).join("")).to.equal("Hello there");
    expect(new Set(tuples.map(({ data }) => data[0].id)).size).to.equal(1);
    expect(tuples[0]?.data[1]).to.include({ langgraph_node: "model" });
  });

  it("carries a model's messages as they grow, and once they are complete", async () => {
    const events = await eventsOf("chat", {
      input: { messages: [{ role: "human", content: "hi" }] },
      stream_mode: "messages",
    });
    const partials = events.filter(({ event }) => event === "messages/partial");
    expect(partials.at(-1)?.data[0].content).to.equal("Hello there");
    for (const [index, { data }] of partials.entries()) {
      expect("Hello there").to.satisfy((whole: string) => whole.startsWith(data[0].content));
      const before = partials[index - 1]?.data[0].content ?? "";
      expect(data[0].content.length).to.be.greaterThan(before.length);
    }
    expect(events.filter(({ event }) => event === "messages/metadata")).to.have.length(1);
    const complete = events.filter(({ event }) => event === "messages/complete");
    expect(complete.flatMap(({ data }) => data).map(({ content }) => content)).to.deep.equal([
      "hi",
      "Hello there",
    ]);
    expect(new Set(named(events))).not.to.include("values");
  });

  it("carries LangChain's own events", async () => {
    const events = await eventsOf("chat", {
      input: { messages: [{ role: "human", content: "hi" }] },
      stream_mode: ["events", "values"],
    });
    const kinds = events
      .filter(({ event }) => event === "events")
      .map(({ data }) => data.event as string);
    expect(kinds).to.include.members([
      "on_chain_start",
      "on_chat_model_stream",
      "on_chat_model_end",
      "on_chain_end",
    ]);
    const values = events.findLast(({ event }) => event === "values")?.data;
    expect(values.messages.at(-1)).to.include({ type: "ai", content: "Hello there" });
  });

  it("carries what the graph itself wants to tell", async () => {
    const events = await eventsOf("events", {
      input: { count: 3, characters: 1 },
      stream_mode: "custom",
    });
    expect(events.slice(1)).to.have.length(3);
    expect(events.slice(1).map(({ event, data }) => [event, data.n])).to.deep.equal([
      ["custom", 1],
      ["custom", 2],
      ["custom", 3],
    ]);
  });

  it("names the subgraph that an event comes from", async () => {
    const events = await eventsOf("family", {
      input: { ask: false },
      stream_mode: "updates",
      stream_subgraphs: true,
    });
    const nested = events.find(({ event }) => event.startsWith("updates|"));
    expect(nested?.event).to.match(/^updates\|child:[0-9a-f-]{36}$/);
    expect(nested?.data).to.deep.equal({ play: { path: ["child unasked"] } });
    expect(named(events).filter((name) => name === "updates")).to.have.length(2);
  });

  it("of a run that fails ends with the error", async () => {
    const events = await eventsOf("failing", { input: { how: "throw" } });
    expect(named(events)).to.deep.equal(["metadata", "values", "values", "error"]);
    expect(events.at(-1)?.data).to.deep.equal({
      error: "PaymentDeclined",
      message: "the card was declined",
    });
  });

  it("with a burst of thousands of events lacks none", async () => {
    const events = await eventsOf("events", { input: { count: 20_000 }, stream_mode: "custom" });
    expect(events.slice(1).map(({ data }) => data.n)).to.deep.equal(
      Array.from({ length: 20_000 }, (_, index) => index + 1),
    );
  });
});
