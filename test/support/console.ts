import { fileURLToPath } from "node:url";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import type pg from "pg";
import { createPool, migrate } from "../../runtime/common/postgres.ts";
import { createSpanStoreExporter } from "../../runtime/common/span-store.ts";
import { createApp } from "../../runtime/gateway/app.ts";
import { createTraceStore, type TraceStore } from "../../runtime/gateway/console/trace-store.ts";
import { CREDENTIALS, gatewayDeps, recordingLogger } from "./gateway.ts";
import { startTestPostgres, type TestPostgres } from "./postgres.ts";
import { exportSpans, type SpanSketch } from "./spans.ts";

const MIGRATIONS = fileURLToPath(new URL("../../runtime/gateway/migrations", import.meta.url));
const { logger } = recordingLogger();

export const ORIGIN = "http://localhost:8088";
export const SIGN_IN = { email: CREDENTIALS.email, password: CREDENTIALS.password };

/** Asks a console in-process, as a browser would. */
export async function openConsole(traces: TraceStore | undefined, now = Date.now) {
  const app = createApp(await gatewayDeps({ ...(traces !== undefined && { traces }), now }));
  const get = async (path: string, headers: Record<string, string> = {}) =>
    app.request(new URL(path, ORIGIN).href, { headers });
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
  const signIn = async () => {
    const answer = await post("/sign-in", SIGN_IN);
    return { cookie: String(answer.headers.get("set-cookie")).split(";")[0] ?? "" };
  };
  return {
    get,
    post,
    signIn,
    /** The page as someone sees it who signed in. */
    page: async (path: string) => (await get(path, await signIn())).text(),
  };
}

export type Console = Awaited<ReturnType<typeof openConsole>>;

/** A database with the schema of the traces, and the span stores of two programs. */
export interface TraceDatabase {
  postgres: TestPostgres;
  /** The gateway's own role. */
  pool: pg.Pool;
  traces: TraceStore;
  worker: SpanExporter;
  models: SpanExporter;
  clear(): Promise<unknown>;
  stop(): Promise<void>;
}

export async function startTraceDatabase(): Promise<TraceDatabase> {
  const postgres = await startTestPostgres();
  await migrate(postgres.url("gateway"), "tracing", MIGRATIONS, logger);
  const pool = createPool(postgres.url("gateway"), logger, { applicationName: "test" });
  const worker = createSpanStoreExporter(postgres.url("worker"), "worker", logger);
  const models = createSpanStoreExporter(postgres.url("model_gateway"), "model-gateway", logger);
  return {
    postgres,
    pool,
    worker,
    models,
    traces: createTraceStore(pool),
    clear: () => pool.query("TRUNCATE tracing.span, tracing.trace"),
    async stop() {
      await Promise.all([worker.shutdown(), models.shutdown(), pool.end()]);
      await postgres.stop();
    },
  };
}

/** The spans of one run through all programs, as they would be kept. */
export function runSpans(
  { worker, models }: TraceDatabase,
  traceId: string,
): { exporter: SpanExporter; sketch: SpanSketch }[] {
  const startedAt = 1_770_000_000_000;
  const [root, run, call] = ["0000000000000001", "0000000000000002", "0000000000000003"];
  const of = { "platform.graph_id": "assistant", "platform.tenant": "acme" };
  const llm = { "openinference.span.kind": "LLM", "llm.token_count.total": 42 };
  const input = JSON.stringify({ messages: [{ role: "human", content: "What time is it?" }] });
  return [
    {
      exporter: worker,
      sketch: { traceId, spanId: root, name: "assistant", startedAt, durationMs: 1500 },
    },
    {
      exporter: worker,
      sketch: {
        traceId,
        spanId: run,
        parentSpanId: root,
        name: "run assistant",
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

/** Keeps a run as its programs would, each sending its own spans. */
export async function keepRun(database: TraceDatabase, traceId: string): Promise<void> {
  for (const { exporter, sketch } of runSpans(database, traceId)) {
    await exportSpans(exporter, [sketch]);
  }
}
