import { once } from "node:events";
import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  request,
} from "node:http";
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
import { carryTraces } from "../support/spans.ts";

const CALLER = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };

describe("the gateway's spans", () => {
  const spans = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  let handler: RequestListener;
  let worker: Listening;
  let gateway: Listening;
  let undo: () => void;

  before(async () => {
    undo = carryTraces();
    worker = await startUpstream((incoming, outgoing) => handler(incoming, outgoing));
    const tracer = provider.getTracer("gateway");
    gateway = await startGateway(await gatewayDeps({ worker: worker.url, tracer }));
  });
  after(async () => {
    await gateway.stop();
    await worker.stop();
    undo();
  });
  beforeEach(() => spans.reset());

  async function call(path: string, headers: Record<string, string> = {}, method = "GET") {
    const sent = request(new URL(path, gateway.url), {
      method,
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

  it("a call is one span with tenant and graph, the root of a trace that the worker goes on with", async () => {
    let seen: string | undefined;
    handler = (incoming, outgoing) => {
      seen = String(incoming.headers.traceparent);
      outgoing.end();
    };
    await once((await call("/info")).resume(), "end");
    const span = await finishedSpan();
    const { traceId, spanId } = span?.spanContext() ?? {};
    expect(span?.parentSpanContext).to.equal(undefined);
    expect(span?.links).to.deep.equal([]);
    expect(seen).to.equal(`00-${traceId}-${spanId}-01`);
    expect(span?.attributes).to.include({
      "platform.tenant": TENANT,
      "platform.graph_id": GRAPH_ID,
      "openinference.span.kind": "CHAIN",
      "http.response.status_code": 200,
    });
  });

  it("a client's own trace is linked, neither joined nor obeyed, and goes no further", async () => {
    let seen: IncomingHttpHeaders = {};
    handler = (incoming, outgoing) => {
      seen = incoming.headers;
      outgoing.end();
    };
    const { traceId, spanId } = CALLER;
    const unsampled = {
      traceparent: `00-${traceId}-${spanId}-00`,
      tracestate: "vendor=secret",
      baggage: "user=kim",
    };
    await once((await call("/info", unsampled)).resume(), "end");
    const span = await finishedSpan();
    const own = span?.spanContext().traceId;
    expect(own).not.to.equal(traceId);
    expect(span?.parentSpanContext).to.equal(undefined);
    expect(span?.links.map(({ context }) => context)).to.deep.equal([
      { traceId, spanId, traceFlags: 0, isRemote: true },
    ]);
    expect(span?.attributes["platform.caller.trace_id"]).to.equal(traceId);
    expect(seen.traceparent).to.equal(`00-${own}-${span?.spanContext().spanId}-01`);
    expect(seen).not.to.have.any.keys("tracestate", "baggage");
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

  it("a run's span is called after its graph, any other by method and path", async () => {
    handler = (_, outgoing) => outgoing.end();
    const names: [string, string, string][] = [
      ["POST", "/runs/wait", GRAPH_ID],
      ["POST", "/runs", GRAPH_ID],
      ["POST", "/threads/t/runs/stream", GRAPH_ID],
      ["GET", "/threads/t/runs", "GET /threads/t/runs"],
      ["POST", "/threads/t/runs/r/cancel", "POST /threads/t/runs/r/cancel"],
    ];
    for (const [method, path, name] of names) {
      spans.reset();
      await once((await call(path, {}, method)).resume(), "end");
      expect((await finishedSpan())?.name, `${method} ${path}`).to.equal(name);
    }
  });

  it("a refused call is a span that says so", async () => {
    const answer = await call("/info", { authorization: "Bearer wrong" });
    await once(answer.resume(), "end");
    expect((await finishedSpan())?.attributes["http.response.status_code"]).to.equal(401);
  });
});
