import { once } from "node:events";
import { type IncomingMessage, type RequestListener, request } from "node:http";
import { context, propagation } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import {
  CALL_HEADERS,
  GRAPH_ID,
  gatewayDeps,
  type Listening,
  startGateway,
  startUpstream,
  TENANT,
} from "../support/gateway.ts";

const CALLER = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };

describe("the gateway's spans", () => {
  const spans = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  let handler: RequestListener;
  let worker: Listening;
  let gateway: Listening;
  const undo: (() => void)[] = [];

  before(async () => {
    // Another test file may have set these for good; what it set is left to it.
    if (context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())) {
      undo.push(() => context.disable());
    }
    if (propagation.setGlobalPropagator(new W3CTraceContextPropagator())) {
      undo.push(() => propagation.disable());
    }
    worker = await startUpstream((incoming, outgoing) => handler(incoming, outgoing));
    const tracer = provider.getTracer("gateway");
    gateway = await startGateway(await gatewayDeps({ worker: worker.url, tracer }));
  });
  after(async () => {
    await gateway.stop();
    await worker.stop();
    for (const step of undo) step();
  });
  beforeEach(() => spans.reset());

  async function call(path: string, headers: Record<string, string> = {}) {
    const sent = request(new URL(path, gateway.url), {
      headers: { ...CALL_HEADERS, host: "agents.localhost", ...headers },
      agent: false,
    });
    const [answer]: IncomingMessage[] = await once(sent.end(), "response");
    if (answer === undefined) throw new Error("there is no answer");
    return answer;
  }

  /** The client may have the answer's last byte a moment before the span ends. */
  async function finishedSpan() {
    await eventually("the span has ended", () => spans.getFinishedSpans().length === 1);
    return spans.getFinishedSpans()[0];
  }

  it("a call is one span with tenant and graph, between the caller's and the worker's", async () => {
    let seen: string | undefined;
    handler = (incoming, outgoing) => {
      seen = String(incoming.headers.traceparent);
      outgoing.end();
    };
    const traceparent = `00-${CALLER.traceId}-${CALLER.spanId}-01`;
    await once((await call("/info", { traceparent })).resume(), "end");
    const span = await finishedSpan();
    expect(span?.parentSpanContext?.spanId).to.equal(CALLER.spanId);
    expect(seen).to.equal(`00-${CALLER.traceId}-${span?.spanContext().spanId}-01`);
    expect(span?.attributes).to.include({
      "platform.tenant": TENANT,
      "platform.graph_id": GRAPH_ID,
      "openinference.span.kind": "CHAIN",
      "http.response.status_code": 200,
    });
  });

  it("a stream's span ends with its body", async () => {
    const gate = Promise.withResolvers<void>();
    handler = async (_, outgoing) => {
      outgoing.writeHead(200).write("first");
      await gate.promise;
      outgoing.end();
    };
    const answer = await call("/runs/stream");
    await once(answer, "data");
    expect(spans.getFinishedSpans()).to.have.length(0);
    gate.resolve();
    await once(answer, "end");
    await finishedSpan();
  });

  it("an answer that broke off is a failed span", async () => {
    handler = (incoming, outgoing) => {
      outgoing.writeHead(200).write("first", () => incoming.socket.destroy());
    };
    const answer = await call("/runs/stream");
    const closed = new Promise((resolve) => answer.once("close", resolve));
    answer.on("error", () => {}).resume();
    await closed;
    expect((await finishedSpan())?.status.code).to.equal(2);
  });

  it("a refused call is a span that says so", async () => {
    const answer = await call("/info", { authorization: "Bearer wrong" });
    await once(answer.resume(), "end");
    expect((await finishedSpan())?.attributes["http.response.status_code"]).to.equal(401);
  });
});
