import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DEV_TOKEN } from "../runtime/common/dev-token.ts";
import { Installation } from "../test/support/installation.ts";
import { type Call, load, percentile } from "./load.ts";

/*
 * What gVisor costs a worker: one and the same agent under gVisor and under runc, in turns within
 * one run, through the gateway of a kind cluster. `npm run bench:sandbox`. Needs what
 * `npm run test:cluster` needs.
 */

const ROUNDS = 5;
const CALLS_ALONE = 100;
const CALLS_TOGETHER = 600;
const CONCURRENCY = 50;
const MOST = 2.5;
const SANDBOXES = ["gvisor", "runc"] as const;
type Sandbox = (typeof SANDBOXES)[number];

const installation = await Installation.prepare();
try {
  for (const sandbox of SANDBOXES) await writeCounter(sandbox);
  const { code, output } = await installation.install();
  if (code !== 0) throw new Error(output);
  await takeSandboxAway("bench-runc");
  await report();
} finally {
  await installation.dispose();
}

/** Adds an agent with one node that does next to nothing. */
async function writeCounter(sandbox: Sandbox): Promise<void> {
  const graphId = `bench-${sandbox}`;
  const folder = join(installation.directory, "agents");
  await mkdir(join(folder, graphId));
  await writeFile(
    join(folder, `${graphId}.ts`),
    `import { defineAgent } from "../runtime/common/agent.ts";

export default defineAgent({ graphId: "${graphId}", graph: "./${graphId}/graph.ts:graph" });
`,
  );
  await writeFile(
    join(folder, graphId, "graph.ts"),
    `import { Annotation, START, StateGraph } from "@langchain/langgraph";

export const graph = new StateGraph(Annotation.Root({ count: Annotation<number> }))
  .addNode("add", ({ count }) => ({ count: count + 1 }))
  .addEdge(START, "add")
  .compile();
`,
  );
}

/** Rolls an agent's pod from gVisor to runc; all else of it stays as it is. */
async function takeSandboxAway(deployment: string): Promise<void> {
  const patch = '{"spec":{"template":{"spec":{"runtimeClassName":null}}}}';
  await installation.kubectl("patch", "deployment", deployment, "--patch", patch);
  await installation.kubectl("rollout", "status", `deployment/${deployment}`, "--timeout=120s");
  for (const sandbox of SANDBOXES) {
    const version = await installation.kubectl(
      ...["exec", `deployment/bench-${sandbox}`, "--", "cat", "/proc/version"],
    );
    console.log(`bench-${sandbox}: ${version.trim()}`);
  }
}

async function report(): Promise<void> {
  const call = (sandbox: Sandbox): Call => ({
    origin: installation.url,
    method: "POST",
    path: "/runs/wait",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${DEV_TOKEN}`,
      "x-graph-id": `bench-${sandbox}`,
    },
    body: JSON.stringify({ assistant_id: `bench-${sandbox}`, input: { count: 1 } }),
    expect: '"count":2',
  });
  for (const sandbox of SANDBOXES) await load(call(sandbox), 10, 300);

  const alone: Record<Sandbox, number[]> = { gvisor: [], runc: [] };
  const together: Record<Sandbox, number[]> = { gvisor: [], runc: [] };
  let errors = 0;
  for (let round = 0; round < ROUNDS; round++) {
    for (const sandbox of SANDBOXES) {
      const one = await load(call(sandbox), 1, CALLS_ALONE);
      const many = await load(call(sandbox), CONCURRENCY, CALLS_TOGETHER);
      alone[sandbox].push(percentile(one.latencies, 0.5));
      together[sandbox].push(CALLS_TOGETHER / many.seconds);
      errors += one.errors + many.errors;
    }
  }

  const median = (values: number[]) => percentile(values, 0.5);
  const [slow, quick] = [median(alone.gvisor), median(alone.runc)];
  const [few, many] = [median(together.gvisor), median(together.runc)];
  console.log(`\nPOST /runs/wait, one-node graph, median of ${ROUNDS} rounds in turns`);
  const line = (name: string, gvisor: string, runc: string, ratio: string) =>
    console.log(`  ${name.padEnd(28)}${gvisor.padStart(10)}${runc.padStart(10)}   ${ratio}`);
  line("", "gVisor", "runc", `gVisor's cost (must hold: at most ${MOST})`);
  line(
    "p50 at concurrency 1 (ms)",
    slow.toFixed(1),
    quick.toFixed(1),
    `${(slow / quick).toFixed(2)}x`,
  );
  line(
    `runs/s at concurrency ${CONCURRENCY}`,
    few.toFixed(0),
    many.toFixed(0),
    `${(many / few).toFixed(2)}x`,
  );
  console.log(`  errors: ${errors}`);
}
