import { expect } from "chai";
import { createPool } from "../../runtime/common/postgres.ts";
import { createSpanStoreExporter } from "../../runtime/common/span-store.ts";
import { sweepTraces } from "../../runtime/gateway/console/retention.ts";
import { createTraceStore } from "../../runtime/gateway/console/trace-store.ts";
import {
  type Console,
  keepRun,
  openConsole,
  startTraceDatabase,
  type TraceDatabase,
} from "../support/console.ts";
import { failureOf } from "../support/failure.ts";
import { recordingLogger } from "../support/gateway.ts";
import { exportSpans, newTraceId } from "../support/spans.ts";

const HOUR_MS = 3_600_000;

describe("one trace", () => {
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

  it("is a waterfall that names service, duration, input and output", async () => {
    const traceId = newTraceId();
    await keepRun(database, traceId);
    const text = await browser.page(`/traces/${traceId}`);
    expect(text).to.contain("project Platform").and.contain("1.50 s");
    expect([...text.matchAll(/<details class="span/g)]).to.have.length(4);
    expect(text).to.contain("s-worker").and.contain("s-model-gateway");
    expect(text).to.contain("&quot;content&quot;: &quot;What time is it?&quot;");
  });

  it("that nobody knows is a 404 page", async () => {
    const session = await browser.signIn();
    expect((await browser.get(`/traces/${newTraceId()}`, session)).status).to.equal(404);
    expect((await browser.get("/traces/not-an-id", session)).status).to.equal(404);
  });

  it("hostile text in any field stays text", async () => {
    const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)>`;
    const traceId = newTraceId();
    const service = createSpanStoreExporter(database.postgres.url("worker"), hostile, logger);
    await exportSpans(service, [
      {
        traceId,
        name: hostile,
        error: hostile,
        attributes: {
          [hostile]: hostile,
          "openinference.span.kind": hostile,
          "platform.graph_id": hostile,
          "platform.tenant": hostile,
          "platform.run_id": hostile,
          "input.value": hostile,
          "output.value": `{"${"a"}":"</code></pre><script>alert(1)</script>"}`,
        },
      },
    ]);
    await service.shutdown();
    const query = `q=${encodeURIComponent(hostile)}&graph=${encodeURIComponent(hostile)}`;
    for (const path of ["/traces", `/traces?${query}`, `/traces/${traceId}`]) {
      const text = await browser.page(path);
      expect(text, path).to.contain("&lt;script&gt;");
      expect(text, path).not.to.match(/<script|<img/i);
    }
    const next = `/sign-in?next=${encodeURIComponent(`/traces/${hostile}`)}`;
    expect(await (await browser.get(next)).text()).not.to.match(/<script|<img/i);
  });

  it("text that PostgreSQL can't keep loses a character, wherever it stands, and no span", async () => {
    const [cut, traceId] = ["😀".slice(0, 1), newTraceId()];
    const escaped = String.raw`\\u0000 \ud83d`;
    await exportSpans(database.worker, [
      {
        traceId,
        name: "GET /x\0",
        error: `\0\0${cut}`,
        attributes: {
          "platform.tenant": `acme${cut}`,
          "openinference.span.kind": "\0",
          [`key\0${cut}`]: ["in a list\0", `"\\\0${cut}`],
          "input.value": escaped,
          whole: "😀",
        },
      },
    ]);
    const { rows } = await database.pool.query(
      "SELECT name, kind, status_message, tenant, attributes FROM tracing.span",
    );
    expect(rows).to.deep.equal([
      {
        name: "GET /x\ufffd",
        kind: "\ufffd",
        status_message: "\ufffd\ufffd\ufffd",
        tenant: "acme\ufffd",
        attributes: {
          "platform.tenant": "acme\ufffd",
          "openinference.span.kind": "\ufffd",
          "key\ufffd\ufffd": ["in a list\ufffd", '"\\\ufffd\ufffd'],
          "input.value": escaped,
          whole: "😀",
        },
      },
    ]);
  });

  it("a span that the database refuses takes none of its batch along, and the log says so", async () => {
    const { logger, log } = recordingLogger();
    const service = createSpanStoreExporter(database.postgres.url("worker"), "worker", logger);
    const traceId = newTraceId();
    const refused = { traceId, durationMs: Number.NaN };
    const outcome = exportSpans(service, [{ traceId, name: "a" }, refused, { traceId, name: "b" }]);
    expect((await failureOf(outcome)).message).to.contain("duration_us");
    await service.shutdown();
    const { rows } = await database.pool.query("SELECT name FROM tracing.span ORDER BY name");
    expect(rows).to.deep.equal([{ name: "a" }, { name: "b" }]);
    expect(log.lines.map(({ msg, spans }) => ({ msg, spans }))).to.deep.equal([
      { msg: "spans lost", spans: 1 },
    ]);
  });

  it("U+0000 that stands escaped in a prompt does not reach the page", async () => {
    const traceId = newTraceId();
    const input = JSON.stringify({ messages: [{ role: "human", content: "before\0after" }] });
    await exportSpans(database.worker, [{ traceId, attributes: { "input.value": input } }]);
    for (const path of ["/traces", `/traces/${traceId}`]) {
      const page = await browser.page(path);
      expect(page, path).to.contain("before");
      expect(page, path).not.to.contain("\0");
    }
  });

  it("values of megabytes are cut, not sent", async () => {
    const traceId = newTraceId();
    const attributes = { "input.value": "x".repeat(2_000_000) };
    await exportSpans(database.worker, [{ traceId, attributes }]);
    expect((await browser.page(`/traces/${traceId}`)).length).to.be.lessThan(30_000);
  });

  it("of more spans than a page holds says so", async () => {
    const traceId = newTraceId();
    await exportSpans(
      database.worker,
      Array.from({ length: 1_050 }, () => ({ traceId })),
    );
    const text = await browser.page(`/traces/${traceId}`);
    expect(text).to.contain("1,050 spans; the first 1,000 are shown");
  });

  it("a database that is down is a 503 page", async () => {
    const lost = createPool("postgres://gateway:x@127.0.0.1:9/platform", logger, {
      applicationName: "test",
    });
    browser = await openConsole(createTraceStore(lost));
    const answer = await browser.get("/traces", await browser.signIn());
    expect(answer.status).to.equal(503);
    expect(await answer.text()).to.contain("database does not answer");
    await lost.end();
  });

  it("traces older than a week are deleted with their spans, newer ones stay", async () => {
    const now = Date.now();
    const old = Array.from({ length: 450 }, newTraceId);
    const fresh = newTraceId();
    await exportSpans(
      database.worker,
      old.map((traceId) => ({ traceId, startedAt: now - 7 * 24 * HOUR_MS - 60_000 })),
    );
    await exportSpans(database.worker, [{ traceId: fresh, startedAt: now - 6 * 24 * HOUR_MS }]);
    expect(await sweepTraces(database.pool)).to.equal(450);
    const { rows } = await database.pool.query("SELECT trace_id FROM tracing.span");
    expect(rows).to.deep.equal([{ trace_id: fresh }]);
    expect(await sweepTraces(database.pool)).to.equal(0);
  });
});
