import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { expect } from "chai";
import { createPool } from "../../runtime/common/postgres.ts";
import { createSpanStoreExporter } from "../../runtime/common/span-store.ts";
import { createApp } from "../../runtime/gateway/app.ts";
import type { TokenVerifier } from "../../runtime/gateway/authentication/token-verifier.ts";
import {
  type Console,
  keepRun,
  openConsole,
  runSpans,
  startTraceDatabase,
  type TraceDatabase,
} from "../support/console.ts";
import { gatewayDeps, recordingLogger } from "../support/gateway.ts";
import { carryTraces, exportSpans, newSpanId, newTraceId } from "../support/spans.ts";

describe("the list of traces", () => {
  const { logger } = recordingLogger();
  let database: TraceDatabase;
  let browser: Console;

  before(async () => {
    database = await startTraceDatabase();
  });
  after(() => database.stop());
  beforeEach(async () => {
    await database.clear();
    browser = await openConsole(database.traces);
  });

  it("tells how to make a first trace where there is none", async () => {
    const text = await browser.page("/traces");
    expect(text).to.contain("No traces yet").and.contain("/runs/wait");
  });

  it("shows run, graph, tenant, duration, spans, tokens and status", async () => {
    await keepRun(database, newTraceId());
    const text = await browser.page("/traces");
    const row = text.slice(text.indexOf("<tbody>"), text.indexOf("</tbody>"));
    for (const piece of [">assistant</a>", "What time is it?", ">assistant<", ">acme<"]) {
      expect(row).to.contain(piece);
    }
    expect(row).to.contain("1.50 s").and.contain('"number">4<').and.contain('"number">42<');
    expect(row).to.contain('class="status ok"');
  });

  it("is right in whatever order and batches a trace's spans come", async () => {
    const inOrder = newTraceId();
    const reversed = newTraceId();
    await keepRun(database, inOrder);
    for (const { exporter, sketch } of runSpans(database, reversed).toReversed()) {
      await exportSpans(exporter, [sketch]);
    }
    const { rows } = await database.pool.query(
      `SELECT started_at, ended_at, name, graph_id, tenant, input, spans, metered_tokens, failed
       FROM tracing.trace ORDER BY trace_id`,
    );
    expect(rows).to.have.length(2);
    expect(rows[0]).to.deep.equal(rows[1]);
    expect(rows[0]).to.include({ name: "assistant", spans: 4, metered_tokens: "42" });
  });

  it("is made of spans alone: who keeps spans can neither read nor write it", async () => {
    const role = createPool(database.postgres.url("worker"), logger, { applicationName: "test" });
    for (const statement of [
      "SELECT FROM tracing.span",
      "SELECT FROM tracing.trace",
      "DELETE FROM tracing.span",
      "INSERT INTO tracing.trace (trace_id) VALUES ('forged')",
    ]) {
      const error = await role.query(statement).catch((thrown: Error) => thrown);
      expect(String(error), statement).to.contain("permission denied");
    }
    await role.end();
  });

  it("a span that is sent twice counts once", async () => {
    const sketch = { traceId: newTraceId(), spanId: newSpanId() };
    await exportSpans(database.worker, [sketch]);
    await exportSpans(database.worker, [sketch]);
    const { rows } = await database.pool.query("SELECT spans FROM tracing.trace");
    expect(rows).to.deep.equal([{ spans: 1 }]);
  });

  it("several programs that keep spans of the same traces at once wait for each other", async () => {
    const traces = Array.from({ length: 40 }, newTraceId);
    const batch = (list: string[]) => list.map((traceId) => ({ traceId }));
    await Promise.all([
      exportSpans(database.worker, batch(traces)),
      exportSpans(database.models, batch(traces.toReversed())),
    ]);
    const { rows } = await database.pool.query(
      "SELECT sum(spans)::int AS spans FROM tracing.trace",
    );
    expect(rows).to.deep.equal([{ spans: 80 }]);
  });

  it("a token count that is no number costs nothing but itself", async () => {
    const attributes = { "openinference.span.kind": "LLM", "llm.token_count.total": "1e999" };
    await exportSpans(database.worker, [{ traceId: newTraceId(), attributes }]);
    expect(await browser.page("/traces")).to.contain('"number">1<');
  });

  it("finds by text, graph and failure, and says when nothing matches", async () => {
    const failed = newTraceId();
    await keepRun(database, newTraceId());
    await exportSpans(database.worker, [
      {
        traceId: failed,
        name: "other",
        error: "boom",
        attributes: { "platform.graph_id": "g2" },
      },
    ]);
    const found = async (query: string) =>
      [...(await browser.page(`/traces?${query}`)).matchAll(/class="run"/g)].length;
    expect(await found("")).to.equal(2);
    expect(await found("q=TIME+is")).to.equal(1);
    expect(await found("q=%25")).to.equal(0);
    expect(await found(`q=${failed}`)).to.equal(1);
    expect(await found("graph=g2")).to.equal(1);
    expect(await found("failed=1")).to.equal(1);
    expect(await found("graph=assistant&failed=1")).to.equal(0);
    expect(await browser.page("/traces?q=nothing-like-it")).to.contain("No trace matches");
  });

  it("goes on to older pages, newest first, each trace once", async () => {
    const at = Date.now();
    const traces = Array.from({ length: 120 }, newTraceId);
    await exportSpans(
      database.worker,
      // Many begin at the same instant: the order must still be total.
      traces.map((traceId, n) => ({ traceId, startedAt: at - Math.floor(n / 50) * 1000 })),
    );
    const seen: string[] = [];
    let path: string | undefined = "/traces?graph=";
    for (let pages = 0; path !== undefined && pages < 5; pages++) {
      const text: string = await browser.page(path);
      seen.push(...[...text.matchAll(/href="\/traces\/([0-9a-f]{32})"/g)].map((m) => String(m[1])));
      path = text.match(/rel="next" href="([^"]+)"/)?.[1]?.replaceAll("&amp;", "&");
    }
    expect(seen).to.have.length(120);
    expect(new Set(seen)).to.deep.equal(new Set(traces));
  });

  it("a broken cursor or a nonsense query is the first page", async () => {
    for (const query of [
      "cursor=x",
      "cursor=1.zz",
      "cursor=%00",
      "failed=9",
      `q=${"x".repeat(5000)}`,
      "q=%00",
      "q=a%00b",
      "graph=%00",
    ]) {
      expect(
        (await browser.get(`/traces?${query}`, await browser.signIn())).status,
        query,
      ).to.equal(200);
    }
  });

  it("two tenants that send the same traceparent have a trace each", async () => {
    const undo = carryTraces();
    const exporter = createSpanStoreExporter(database.postgres.url("gateway"), "gateway", logger);
    const provider = new BasicTracerProvider({
      spanProcessors: [new BatchSpanProcessor(exporter)],
    });
    const verifier: TokenVerifier = {
      verify: async (token) => ({ tenant: token, subject: "someone" }),
    };
    const app = createApp(await gatewayDeps({ verifier, tracer: provider.getTracer("gateway") }));
    const theirs = newTraceId();
    for (const tenant of ["acme", "globex"]) {
      await app.request("http://agents.localhost/info", {
        headers: {
          authorization: `Bearer ${tenant}`,
          "x-graph-id": "nobody-home",
          traceparent: `00-${theirs}-${newSpanId()}-01`,
        },
      });
    }
    await provider.shutdown();
    undo();
    const { rows } = await database.pool.query(
      "SELECT tenant, spans, trace_id FROM tracing.trace ORDER BY tenant",
    );
    expect(rows.map(({ tenant, spans }) => [tenant, spans])).to.deep.equal([
      ["acme", 1],
      ["globex", 1],
    ]);
    expect((await browser.get(`/traces/${theirs}`, await browser.signIn())).status).to.equal(404);
    expect(await browser.page(`/traces/${rows[0]?.trace_id}`)).to.contain(theirs);
  });
});
