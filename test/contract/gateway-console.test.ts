import { fileURLToPath } from "node:url";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import { expect } from "chai";
import type { Hono } from "hono";
import type pg from "pg";
import { createPool, migrate } from "../../runtime/common/postgres.ts";
import { createSpanStoreExporter } from "../../runtime/common/span-store.ts";
import { createApp } from "../../runtime/gateway/app.ts";
import { sweepTraces } from "../../runtime/gateway/console/retention.ts";
import { createTraceStore } from "../../runtime/gateway/console/trace-store.ts";
import type { GatewayEnv } from "../../runtime/gateway/gateway-env.ts";
import { CREDENTIALS, gatewayDeps, recordingLogger } from "../support/gateway.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import { exportSpans, newSpanId, newTraceId, type SpanSketch } from "../support/spans.ts";

const MIGRATIONS = fileURLToPath(new URL("../../runtime/gateway/migrations", import.meta.url));
const ORIGIN = "http://localhost:8088";
const SIGN_IN = { email: CREDENTIALS.email, password: CREDENTIALS.password };
const HOUR_MS = 3_600_000;

describe("the console", () => {
  const { logger } = recordingLogger();
  let postgres: TestPostgres;
  let pool: pg.Pool;
  let worker: SpanExporter;
  let models: SpanExporter;
  let app: Hono<GatewayEnv>;
  let clock = Date.now();

  before(async () => {
    postgres = await startTestPostgres();
    await migrate(postgres.url("gateway"), "tracing", MIGRATIONS, logger);
    pool = createPool(postgres.url("gateway"), logger, { applicationName: "test" });
    worker = createSpanStoreExporter(postgres.url("worker"), "worker", logger);
    models = createSpanStoreExporter(postgres.url("model_gateway"), "model-gateway", logger);
  });
  after(async () => {
    await Promise.all([worker.shutdown(), models.shutdown(), pool.end()]);
    await postgres.stop();
  });
  beforeEach(async () => {
    clock = Date.now();
    await pool.query("TRUNCATE tracing.span, tracing.trace");
    app = createApp(await gatewayDeps({ traces: createTraceStore(pool), now: () => clock }));
  });

  const get = async (path: string, headers: Record<string, string> = {}) =>
    app.request(ORIGIN + path, { headers });

  const post = async (
    path: string,
    form: Record<string, string>,
    headers: Record<string, string> = {},
  ) =>
    app.request(ORIGIN + path, {
      method: "POST",
      body: new URLSearchParams(form),
      headers: { origin: ORIGIN, ...headers },
    });

  async function signIn(): Promise<{ cookie: string }> {
    const answer = await post("/sign-in", SIGN_IN);
    return { cookie: String(answer.headers.get("set-cookie")).split(";")[0] ?? "" };
  }

  const page = async (path: string) => (await get(path, await signIn())).text();

  describe("the welcome page", () => {
    it("shows strangers how to call, but no agent and no token", async () => {
      const answer = await get("/");
      const text = await answer.text();
      expect(answer.status).to.equal(200);
      expect(text).to.contain(`curl -s ${ORIGIN}/runs/wait`).and.contain("&lt;token&gt;");
      expect(text).not.to.contain("assistant</li>").and.not.to.contain("test-dev-token");
    });

    it("shows those who signed in what runs and a call that works when pasted", async () => {
      const text = await page("/");
      expect(text).to.contain("assistant</li>").and.contain("Bearer test-dev-token");
    });

    it("names the doors' own hosts on its own host", async () => {
      const answer = await app.request("http://console.localhost:8088/");
      expect(await answer.text()).to.contain("http://agents.localhost:8088/runs/wait");
      const traces = await app.request("http://traces.localhost/");
      expect(traces.headers.get("location")).to.equal("/traces");
    });
  });

  describe("signing in", () => {
    it("is asked for before any trace, and leads back to where one wanted to go", async () => {
      const path = `/traces/${"a".repeat(32)}?x=1`;
      const sent = await get(path);
      expect(sent.status).to.equal(303);
      const place = String(sent.headers.get("location"));
      expect(place).to.equal(`/sign-in?next=${encodeURIComponent(path)}`);
      expect((await get("/traces/")).status).to.equal(303);
      const answer = await post("/sign-in", { ...SIGN_IN, next: path });
      expect(answer.status).to.equal(303);
      expect(answer.headers.get("location")).to.equal(path);
    });

    it("gives a signed, HttpOnly, SameSite=Lax cookie for 12 hours", async () => {
      const answer = await post("/sign-in", SIGN_IN);
      const cookie = String(answer.headers.get("set-cookie"));
      expect(cookie)
        .to.contain("HttpOnly")
        .and.contain("SameSite=Lax")
        .and.contain("Max-Age=43200");
      expect(cookie).not.to.contain("Secure");
      const secure = await post("/sign-in", SIGN_IN, { "x-forwarded-proto": "https" });
      expect(String(secure.headers.get("set-cookie"))).to.contain("Secure");
    });

    it("with a wrong email or password is a 401, and the sixth try must wait", async () => {
      expect((await post("/sign-in", { ...SIGN_IN, email: "x@localhost" })).status).to.equal(401);
      for (let failure = 0; failure < 4; failure++) {
        const answer = await post("/sign-in", { ...SIGN_IN, password: "wrong" });
        expect(answer.status).to.equal(401);
        expect(await answer.text()).to.contain("Email or password is wrong");
      }
      const slowed = await post("/sign-in", SIGN_IN);
      expect(slowed.status).to.equal(429);
      expect(slowed.headers.get("retry-after")).to.equal("1");
      clock += 1_000;
      expect((await post("/sign-in", SIGN_IN)).status).to.equal(303);
    });

    it("half a form is a 400, a huge one a 413", async () => {
      expect((await post("/sign-in", { email: "a" })).status).to.equal(400);
      const huge = await post("/sign-in", { ...SIGN_IN, next: "x".repeat(20_000) });
      expect(huge.status).to.equal(413);
    });

    it("ends after 12 hours, by signing out, and with another cookie", async () => {
      const session = await signIn();
      expect((await get("/traces", session)).status).to.equal(200);
      const forged = session.cookie.replace("=", "=9");
      expect((await get("/traces", { cookie: forged })).status).to.equal(303);
      const out = await post("/sign-out", {}, session);
      expect(String(out.headers.get("set-cookie"))).to.contain("Max-Age=0");
      clock += 12 * HOUR_MS;
      expect((await get("/traces", session)).status).to.equal(303);
    });

    it("from another site's form is a 403", async () => {
      for (const headers of [{ origin: "https://evil.example" }, { origin: "null" }]) {
        expect((await post("/sign-in", SIGN_IN, headers)).status).to.equal(403);
        expect((await post("/sign-out", {}, headers)).status).to.equal(403);
      }
    });
  });

  it("every page forbids scripts and frames, and is kept by no cache", async () => {
    const session = await signIn();
    for (const path of ["/", "/sign-in", "/traces", "/traces/no", "/assets/nothing"]) {
      const { headers } = await get(path, session);
      const policy = String(headers.get("content-security-policy"));
      expect(policy, path).to.contain("default-src 'none'").and.contain("frame-ancestors 'none'");
      expect(policy).not.to.contain("unsafe").and.not.to.contain("script-src");
      expect(headers.get("cache-control")).to.equal("no-store");
      expect(headers.get("x-request-id")).to.be.a("string");
    }
  });

  describe("the list of traces", () => {
    it("tells how to make a first trace where there is none", async () => {
      const text = await page("/traces");
      expect(text).to.contain("No traces yet").and.contain("/runs/wait");
    });

    it("shows run, graph, tenant, duration, spans, tokens and status", async () => {
      await keepRun(newTraceId());
      const text = await page("/traces");
      const row = text.slice(text.indexOf("<tbody>"), text.indexOf("</tbody>"));
      for (const piece of ["POST /runs/wait", "What time is it?", ">assistant<", ">acme<"]) {
        expect(row).to.contain(piece);
      }
      expect(row).to.contain("1.50 s").and.contain('"number">4<').and.contain('"number">42<');
      expect(row).to.contain('class="status ok"');
    });

    it("is right in whatever order and batches a trace's spans come", async () => {
      const inOrder = newTraceId();
      const reversed = newTraceId();
      await keepRun(inOrder);
      for (const { exporter, sketch } of runSpans(reversed).toReversed()) {
        await exportSpans(exporter, [sketch]);
      }
      const { rows } = await pool.query(
        `SELECT started_at, ended_at, name, graph_id, tenant, input, spans, metered_tokens, failed
         FROM tracing.trace ORDER BY trace_id`,
      );
      expect(rows).to.have.length(2);
      expect(rows[0]).to.deep.equal(rows[1]);
      expect(rows[0]).to.include({ name: "POST /runs/wait", spans: 4, metered_tokens: "42" });
    });

    it("is made of spans alone: who keeps spans can neither read nor write it", async () => {
      const role = createPool(postgres.url("worker"), logger, { applicationName: "test" });
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
      await exportSpans(worker, [sketch]);
      await exportSpans(worker, [sketch]);
      const { rows } = await pool.query("SELECT spans FROM tracing.trace");
      expect(rows).to.deep.equal([{ spans: 1 }]);
    });

    it("several programs that keep spans of the same traces at once wait for each other", async () => {
      const traces = Array.from({ length: 40 }, newTraceId);
      const batch = (list: string[]) => list.map((traceId) => ({ traceId }));
      await Promise.all([
        exportSpans(worker, batch(traces)),
        exportSpans(models, batch(traces.toReversed())),
      ]);
      const { rows } = await pool.query("SELECT sum(spans)::int AS spans FROM tracing.trace");
      expect(rows).to.deep.equal([{ spans: 80 }]);
    });

    it("a token count that is no number costs nothing but itself", async () => {
      const attributes = { "openinference.span.kind": "LLM", "llm.token_count.total": "1e999" };
      await exportSpans(worker, [{ traceId: newTraceId(), attributes }]);
      expect(await page("/traces")).to.contain('"number">1<');
    });

    it("finds by text, graph and failure, and says when nothing matches", async () => {
      const failed = newTraceId();
      await keepRun(newTraceId());
      await exportSpans(worker, [
        {
          traceId: failed,
          name: "other",
          error: "boom",
          attributes: { "platform.graph_id": "g2" },
        },
      ]);
      const found = async (query: string) =>
        [...(await page(`/traces?${query}`)).matchAll(/class="run"/g)].length;
      expect(await found("")).to.equal(2);
      expect(await found("q=TIME+is")).to.equal(1);
      expect(await found("q=%25")).to.equal(0);
      expect(await found(`q=${failed}`)).to.equal(1);
      expect(await found("graph=g2")).to.equal(1);
      expect(await found("failed=1")).to.equal(1);
      expect(await found("graph=assistant&failed=1")).to.equal(0);
      expect(await page("/traces?q=nothing-like-it")).to.contain("No trace matches");
    });

    it("goes on to older pages, newest first, each trace once", async () => {
      const at = Date.now();
      const traces = Array.from({ length: 120 }, newTraceId);
      await exportSpans(
        worker,
        // Many begin at the same instant: the order must still be total.
        traces.map((traceId, n) => ({ traceId, startedAt: at - Math.floor(n / 50) * 1000 })),
      );
      const seen: string[] = [];
      let path: string | undefined = "/traces?graph=";
      for (let pages = 0; path !== undefined && pages < 5; pages++) {
        const text: string = await page(path);
        seen.push(
          ...[...text.matchAll(/href="\/traces\/([0-9a-f]{32})"/g)].map((m) => String(m[1])),
        );
        path = text.match(/rel="next" href="([^"]+)"/)?.[1]?.replaceAll("&amp;", "&");
      }
      expect(seen).to.have.length(120);
      expect(new Set(seen)).to.deep.equal(new Set(traces));
    });

    it("a broken cursor or a nonsense query is the first page", async () => {
      for (const query of ["cursor=x", "cursor=1.zz", "failed=9", `q=${"x".repeat(5000)}`]) {
        expect((await get(`/traces?${query}`, await signIn())).status, query).to.equal(200);
      }
    });
  });

  describe("one trace", () => {
    it("is a waterfall that names service, duration, input and output", async () => {
      const traceId = newTraceId();
      await keepRun(traceId);
      const text = await page(`/traces/${traceId}`);
      expect(text).to.contain("project Platform").and.contain("1.50 s");
      expect([...text.matchAll(/<details class="span/g)]).to.have.length(4);
      expect(text).to.contain("s-worker").and.contain("s-model-gateway");
      expect(text).to.contain("&quot;content&quot;: &quot;What time is it?&quot;");
    });

    it("that nobody knows is a 404 page", async () => {
      const session = await signIn();
      expect((await get(`/traces/${newTraceId()}`, session)).status).to.equal(404);
      expect((await get("/traces/not-an-id", session)).status).to.equal(404);
    });

    it("hostile text in any field stays text", async () => {
      const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)>`;
      const traceId = newTraceId();
      const service = createSpanStoreExporter(postgres.url("worker"), hostile, logger);
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
        const text = await page(path);
        expect(text, path).to.contain("&lt;script&gt;");
        expect(text, path).not.to.match(/<script|<img/i);
      }
      const next = `/sign-in?next=${encodeURIComponent(`/traces/${hostile}`)}`;
      expect(await (await get(next)).text()).not.to.match(/<script|<img/i);
    });

    it("values of megabytes are cut, not sent", async () => {
      const traceId = newTraceId();
      const attributes = { "input.value": "x".repeat(2_000_000) };
      await exportSpans(worker, [{ traceId, attributes }]);
      expect((await page(`/traces/${traceId}`)).length).to.be.lessThan(30_000);
    });

    it("of more spans than a page holds says so", async () => {
      const traceId = newTraceId();
      await exportSpans(
        worker,
        Array.from({ length: 1_050 }, () => ({ traceId })),
      );
      const text = await page(`/traces/${traceId}`);
      expect(text).to.contain("1,050 spans; the first 1,000 are shown");
    });
  });

  it("a database that is down is a 503 page", async () => {
    const lost = createPool("postgres://gateway:x@127.0.0.1:9/platform", logger, {
      applicationName: "test",
    });
    app = createApp(await gatewayDeps({ traces: createTraceStore(lost) }));
    const answer = await get("/traces", await signIn());
    expect(answer.status).to.equal(503);
    expect(await answer.text()).to.contain("database does not answer");
    await lost.end();
  });

  it("traces older than a week are deleted with their spans, newer ones stay", async () => {
    const now = Date.now();
    const old = Array.from({ length: 450 }, newTraceId);
    const fresh = newTraceId();
    await exportSpans(
      worker,
      old.map((traceId) => ({ traceId, startedAt: now - 7 * 24 * HOUR_MS - 60_000 })),
    );
    await exportSpans(worker, [{ traceId: fresh, startedAt: now - 6 * 24 * HOUR_MS }]);
    expect(await sweepTraces(pool)).to.equal(450);
    const { rows } = await pool.query("SELECT trace_id FROM tracing.span");
    expect(rows).to.deep.equal([{ trace_id: fresh }]);
    expect(await sweepTraces(pool)).to.equal(0);
  });

  /** The spans of one run through all programs, as they would be kept. */
  function runSpans(traceId: string): { exporter: SpanExporter; sketch: SpanSketch }[] {
    const startedAt = 1_770_000_000_000;
    const [root, run, call] = ["0000000000000001", "0000000000000002", "0000000000000003"];
    const of = { "platform.graph_id": "assistant", "platform.tenant": "acme" };
    const llm = { "openinference.span.kind": "LLM", "llm.token_count.total": 42 };
    const input = JSON.stringify({ messages: [{ role: "human", content: "What time is it?" }] });
    return [
      {
        exporter: worker,
        sketch: { traceId, spanId: root, name: "POST /runs/wait", startedAt, durationMs: 1500 },
      },
      {
        exporter: worker,
        sketch: {
          traceId,
          spanId: run,
          parentSpanId: root,
          name: "assistant",
          startedAt: startedAt + 5,
          durationMs: 1400,
          attributes: { ...of, "input.value": input, "output.value": "It is noon." },
        },
      },
      {
        exporter: worker,
        sketch: {
          traceId,
          spanId: call,
          parentSpanId: run,
          name: "ChatOpenAI",
          startedAt: startedAt + 10,
          durationMs: 900,
          attributes: { ...llm, "input.value": "system prompt" },
        },
      },
      {
        exporter: models,
        sketch: {
          traceId,
          spanId: "0000000000000004",
          parentSpanId: call,
          name: "POST /v1/chat/completions",
          startedAt: startedAt + 12,
          durationMs: 880,
          attributes: { ...llm, "input.value": "[…]" },
        },
      },
    ];
  }

  async function keepRun(traceId: string): Promise<void> {
    for (const { exporter, sketch } of runSpans(traceId)) await exportSpans(exporter, [sketch]);
  }
});
