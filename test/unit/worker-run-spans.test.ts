import { tool } from "@langchain/core/tools";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ROOT_CONTEXT, trace } from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { expect } from "chai";
import { z } from "zod";
import { RunSpans } from "../../runtime/worker/run-spans.ts";

describe("the spans of a run", () => {
  it("are its nodes, subgraphs' too, and what each calls, by their names", async () => {
    const look = tool(async () => "noon", { name: "clock", schema: z.object({}) });
    const inner = new StateGraph(MessagesAnnotation)
      .addNode("ask", async (_, config) => {
        await look.invoke({}, config);
        return { messages: [{ role: "ai", content: "It is noon." }] };
      })
      .addEdge(START, "ask")
      .compile();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("think", async () => ({ messages: [] }))
      .addNode("answer", inner)
      .addEdge(START, "think")
      .addEdge("think", "answer")
      .compile();
    const exporter = new InMemorySpanExporter();
    const provider = new BasicTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(exporter)],
    });
    const tracer = provider.getTracer("test");
    const run = tracer.startSpan("run");
    const context = {
      kind: "run" as const,
      runId: "r",
      graphId: "g",
      assertion: "",
      trace: trace.setSpan(ROOT_CONTEXT, run),
      modelSpans: new Set<never>(),
      fail: () => {},
    };
    const callback = new RunSpans(tracer, context, { tenant: "acme", graphId: "g" });

    await graph.invoke({ messages: [] }, { callbacks: [callback] });
    run.end();

    const spans = exporter.getFinishedSpans();
    const nameOf = (id: string | undefined) =>
      spans.find((span) => span.spanContext().spanId === id)?.name;
    const tree = spans.map(({ name, parentSpanContext }) => [
      name,
      nameOf(parentSpanContext?.spanId),
    ]);
    expect(tree).to.have.deep.members([
      ["run", undefined],
      ["think", "run"],
      ["answer", "run"],
      ["ask", "answer"],
      ["clock", "ask"],
    ]);
    const ask = spans.find(({ name }) => name === "ask");
    expect(ask?.attributes).to.include({
      "openinference.span.kind": "CHAIN",
      "platform.tenant": "acme",
      "platform.graph_id": "g",
    });
    expect(ask?.attributes["output.value"]).to.contain("It is noon.");
  });
});
