import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";
import { createSpanStoreExporter } from "../../runtime/common/span-store.ts";
import { launchBrowser } from "../support/browser.ts";
import { startTraceDatabase, type TraceDatabase } from "../support/console.ts";
import {
  CREDENTIALS,
  gatewayDeps,
  type Listening,
  recordingLogger,
  startGateway,
} from "../support/gateway.ts";
import { exportSpans, newSpanId, newTraceId, type SpanSketch } from "../support/spans.ts";

const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
const SCREENS = { desk: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

describe("the console in a browser", () => {
  const { logger } = recordingLogger();
  let database: TraceDatabase;
  let gateway: Listening;
  let browser: Browser;
  let page: Page;
  let base: string;
  let complaints: string[];

  before(async () => {
    browser = await launchBrowser();
    database = await startTraceDatabase();
    gateway = await startGateway(await gatewayDeps({ traces: database.traces }));
    base = `http://localhost:${gateway.url.port}`;
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
    await database?.stop();
  });
  beforeEach(async () => {
    await database.clear();
    const context = await browser.newContext({ viewport: SCREENS.desk });
    page = await context.newPage();
    complaints = [];
    // What a page may not do (its content policy) and what it lacks is said on the console.
    page.on("console", (message) => {
      if (message.type() === "error") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(error.message));
  });
  afterEach(() => page.context().close());

  async function signIn(): Promise<void> {
    await page.goto(`${base}/traces`);
    await page.getByLabel("Email").fill(CREDENTIALS.email);
    await page.getByLabel("Password").fill(CREDENTIALS.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL(`${base}/traces`);
  }

  it("one signs in, is told how to make a first trace, and signs out", async () => {
    await signIn();
    expect(await page.locator("main").textContent()).to.contain("No traces yet");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(`${base}/`);
    await page.getByRole("link", { name: "Traces" }).click();
    expect(page.url()).to.contain("/sign-in");
    expect(complaints).to.deep.equal([]);
  });

  it("a wrong password is said, and the email stays in its field", async () => {
    await page.goto(`${base}/sign-in`);
    await page.getByLabel("Email").fill("someone@localhost");
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    expect(await page.getByRole("alert").textContent()).to.contain("wrong");
    expect(await page.getByLabel("Email").inputValue()).to.equal("someone@localhost");
  });

  it("from the list one filters, opens a run and looks into a step", async () => {
    await keepRun(newTraceId(), "What time is it in Lisbon?");
    await keepRun(newTraceId(), "Something else");
    await signIn();
    await page.getByLabel("Search").fill("lisbon");
    await page.getByRole("button", { name: "Filter" }).click();
    expect(await page.locator("tbody tr").count()).to.equal(1);
    await page.getByRole("link", { name: "assistant" }).click();
    const steps = page.locator("details.span");
    expect(await steps.count()).to.equal(7);
    await steps.filter({ hasText: "current_time" }).locator("summary").click();
    expect(await page.locator("details[open]").textContent()).to.contain("Europe/Lisbon");
    expect(complaints).to.deep.equal([]);
  });

  it("bars stand where the steps were in time", async () => {
    await keepRun(newTraceId(), "Hello");
    await signIn();
    await page.getByRole("link", { name: "assistant" }).click();
    const bars = page.locator(".bar rect");
    const [root, last] = [await bars.first().boundingBox(), await bars.last().boundingBox()];
    if (root === null || last === null) throw new Error("there are no bars");
    expect(last.x).to.be.greaterThan(root.x + root.width / 2);
    expect(last.x + last.width).to.be.lessThan(root.x + root.width + 1);
  });

  it("hostile text in a span is shown, not run", async () => {
    const traceId = newTraceId();
    const span = { traceId, name: HOSTILE, error: HOSTILE };
    await exportTo("worker", [
      { ...span, attributes: { "input.value": HOSTILE, [HOSTILE]: HOSTILE } },
    ]);
    await signIn();
    await page.goto(`${base}/traces/${traceId}`);
    await page.locator("details.span summary").click();
    expect(await page.locator("details[open]").textContent()).to.contain(HOSTILE);
    expect(await page.title()).not.to.equal("owned");
    expect(await page.locator("main img").count()).to.equal(0);
  });

  for (const [screen, viewport] of Object.entries(SCREENS)) {
    for (const colorScheme of ["light", "dark"] as const) {
      it(`every page fits a ${screen} (${colorScheme})`, async () => {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        const traceId = newTraceId();
        await page.goto(`${base}/sign-in`);
        await inspect(`${screen}-${colorScheme}-sign-in`);
        await signIn();
        await inspect(`${screen}-${colorScheme}-empty`);
        await keepRun(traceId, "What time is it in Lisbon, and is the office there open now?");
        await keepRun(newTraceId(), "x".repeat(300), "the provider refused the call");
        await exportTo("gateway", [{ traceId: newTraceId(), name: "POST /v1/chat/completions" }]);
        for (const path of ["/", "/traces", `/traces/${traceId}`, "/traces/nothing"]) {
          await page.goto(base + path);
          await inspect(
            `${screen}-${colorScheme}${path.replace(traceId, "one").replaceAll("/", "-")}`,
          );
        }
        await page.goto(`${base}/traces?failed=1`);
        await page.getByRole("link", { name: "assistant" }).click();
        await page.locator("summary").last().click();
        await inspect(`${screen}-${colorScheme}-open`);
      });
    }
  }

  /** Nothing may stick out sideways. `SCREENSHOTS` names a folder to keep pictures in. */
  async function inspect(name: string): Promise<void> {
    const overflow = await page.evaluate(
      "document.documentElement.scrollWidth - document.documentElement.clientWidth",
    );
    expect(overflow, name).to.equal(0);
    const folder = process.env.SCREENSHOTS;
    if (!folder) return;
    await mkdir(folder, { recursive: true });
    await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
  }

  async function exportTo(service: string, spans: SpanSketch[]): Promise<void> {
    const exporter: SpanExporter = createSpanStoreExporter(
      database.postgres.url("worker"),
      service,
      logger,
    );
    await exportSpans(exporter, spans);
    await exporter.shutdown();
  }

  /** A run that asks the model, calls a tool, and asks the model again. */
  async function keepRun(traceId: string, question: string, error?: string): Promise<void> {
    const startedAt = Date.now() - 90_000;
    const [door, run, first, tool, second] = Array.from({ length: 5 }, newSpanId);
    const messages = JSON.stringify({ messages: [{ role: "human", content: question }] });
    const kind = (name: string) => ({ "openinference.span.kind": name });
    const of = { "platform.graph_id": "assistant", "platform.tenant": "local" };
    const llm = { ...kind("LLM"), "llm.model_name": "demo/echo", "llm.token_count.total": 87 };
    const at = (offsetMs: number, durationMs: number, parentSpanId?: string) => ({
      traceId,
      startedAt: startedAt + offsetMs,
      durationMs,
      ...(parentSpanId !== undefined && { parentSpanId }),
    });
    await exportTo("gateway", [
      {
        ...at(0, 1240),
        spanId: door ?? "",
        name: "assistant",
        attributes: { ...kind("CHAIN"), ...of, "http.response.status_code": 200 },
      },
    ]);
    await exportTo("worker", [
      {
        ...at(4, 1230, door),
        spanId: run ?? "",
        name: "run assistant",
        attributes: { ...kind("AGENT"), ...of, "input.value": messages, "output.value": messages },
      },
      { ...at(12, 520, run), spanId: first ?? "", name: "ChatOpenAI", attributes: llm },
      {
        ...at(540, 3, run),
        spanId: tool ?? "",
        name: "current_time",
        attributes: { ...kind("TOOL"), "input.value": '{"timeZone":"Europe/Lisbon"}' },
      },
      { ...at(560, 660, run), spanId: second ?? "", name: "ChatOpenAI", attributes: llm },
    ]);
    await exportTo("model-gateway", [
      { ...at(18, 505, first), name: "POST /v1/chat/completions", attributes: llm },
      {
        ...at(700, 500, second),
        name: "POST /v1/chat/completions",
        attributes: { ...llm, "input.value": messages, "output.value": "It is noon in Lisbon." },
        ...(error !== undefined && { error }),
      },
    ]);
  }
});
