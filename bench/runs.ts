import { fork } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ASSERTION_HEADER, createAssertionSigner } from "../runtime/common/identity.ts";
import { type Call, load, percentile } from "./load.ts";
import { type BenchPlatform, startPlatform } from "./platform.ts";

/*
 * What a durable run costs through the whole platform, and what our gateway adds to a call beside
 * a plain node:http proxy, in turns within one run. `npm run bench`.
 */

const ROUNDS = 5;
const CALLS_ALONE = 200;
const CALLS_TOGETHER = 1_500;
const CONCURRENCY = 50;
const BODY = JSON.stringify({ assistant_id: "counter", input: { count: 1 } });

const platform = await startPlatform();
try {
  await reportMemory(platform);
  const proxy = await startPlainProxy(platform.programs.worker.url);
  try {
    await reportRuns(platform, proxy.url);
  } finally {
    proxy.stop();
  }
} finally {
  await platform.stop();
}

async function reportMemory({ programs }: BenchPlatform): Promise<void> {
  console.log("\nIdle memory (resident set, MB)");
  let sum = 0;
  for (const program of Object.values(programs)) {
    const megabytes = await residentMegabytes(program.pid);
    sum += megabytes;
    console.log(`  ${program.title.padEnd(16)}${megabytes.toFixed(0).padStart(6)}`);
  }
  console.log(`  ${"together".padEnd(16)}${sum.toFixed(0).padStart(6)}   (must hold: under 450)`);
}

async function reportRuns({ programs, secrets, token }: BenchPlatform, proxyUrl: string) {
  const signer = await createAssertionSigner(secrets.assertionKeys.privateKey);
  const headers = async () => ({
    "content-type": "application/json",
    [ASSERTION_HEADER]: await signer.sign({ tenant: "local", subject: "bench" }, "counter"),
  });
  const run = (origin: string, own: Record<string, string>): Call => ({
    origin,
    method: "POST",
    path: "/runs/wait",
    headers: own,
    body: BODY,
    expect: '"count":2',
  });
  const info = (origin: string, own: Record<string, string>): Call => ({
    origin,
    method: "GET",
    path: "/info",
    headers: own,
    expect: "langgraph_js_version",
  });
  const ours = {
    "content-type": "application/json",
    authorization: `Bearer ${token}`,
    "x-graph-id": "counter",
  };

  // Both gateways and both programs behind them warm up alike.
  await load(run(programs.gateway.url, ours), 10, 500);
  await load(info(programs.gateway.url, ours), 4, 500);
  await load(info(proxyUrl, await headers()), 4, 500);

  const alone: Record<"direct" | "plain proxy" | "gateway", number[]> = {
    direct: [],
    "plain proxy": [],
    gateway: [],
  };
  const runs: number[] = [];
  const throughput: number[] = [];
  const together: number[] = [];
  let errors = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const own = await headers();
    const direct = await load(info(programs.worker.url, own), 1, CALLS_ALONE);
    const plain = await load(info(proxyUrl, own), 1, CALLS_ALONE);
    const gateway = await load(info(programs.gateway.url, ours), 1, CALLS_ALONE);
    alone.direct.push(percentile(direct.latencies, 0.5));
    alone["plain proxy"].push(percentile(plain.latencies, 0.5));
    alone.gateway.push(percentile(gateway.latencies, 0.5));
    const one = await load(run(programs.gateway.url, ours), 1, CALLS_ALONE);
    runs.push(percentile(one.latencies, 0.5));
    const many = await load(run(programs.gateway.url, ours), CONCURRENCY, CALLS_TOGETHER);
    throughput.push(CALLS_TOGETHER / many.seconds);
    together.push(percentile(many.latencies, 0.99));
    errors += one.errors + many.errors + gateway.errors;
  }

  const median = (values: number[]) => percentile(values, 0.5);
  const [direct, plain, gateway] = [alone.direct, alone["plain proxy"], alone.gateway].map(median);
  if (direct === undefined || plain === undefined || gateway === undefined) return;
  const line = (name: string, value: string, bound = "") =>
    console.log(`  ${name.padEnd(44)}${value.padStart(12)}   ${bound}`);
  console.log(`\nOne call at a time, GET /info, p50 (ms), median of ${ROUNDS} rounds`);
  line("worker, direct", direct.toFixed(2));
  line("through a plain node:http proxy", plain.toFixed(2), `hop +${(plain - direct).toFixed(2)}`);
  line("through the gateway", gateway.toFixed(2), `hop +${(gateway - direct).toFixed(2)}`);
  line(
    "hop, gateway : plain proxy",
    ((gateway - direct) / (plain - direct)).toFixed(2),
    "(must hold: hop at most +1 ms)",
  );
  console.log("\nPOST /runs/wait, one-node graph, durable, through the gateway, traced");
  line("p50 at concurrency 1 (ms)", median(runs).toFixed(1), "(must hold: under 30)");
  line(
    `runs/s at concurrency ${CONCURRENCY}`,
    `${median(throughput).toFixed(0)}`,
    "(must hold: at least 150)",
  );
  line(`  lowest and highest round`, spread(throughput));
  line(`p99 at concurrency ${CONCURRENCY} (ms)`, median(together).toFixed(0));
  line("errors", String(errors), "(must hold: 0)");
  console.log();
}

function spread(values: number[]): string {
  return `${Math.min(...values).toFixed(0)}–${Math.max(...values).toFixed(0)}`;
}

async function startPlainProxy(upstream: string): Promise<{ url: string; stop(): void }> {
  const child = fork(join(import.meta.dirname, "plain-proxy.ts"), [upstream]);
  const [{ listening }] = (await once(child, "message")) as [{ listening: number }];
  return { url: `http://127.0.0.1:${listening}`, stop: () => child.disconnect() };
}

async function residentMegabytes(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const kilobytes = /^VmRSS:\s+(\d+)/m.exec(status)?.[1];
  if (kilobytes === undefined) throw new Error(`No resident set of process ${pid}.`);
  return Number(kilobytes) / 1000;
}
