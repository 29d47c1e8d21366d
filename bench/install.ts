import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { ask, writeAgent } from "../test/support/cluster-agent.ts";
import { type Finished, Installation, NODE } from "../test/support/installation.ts";

/*
 * What an installation on a kind cluster costs: from nothing to the first answer, again, with one
 * agent more, and gone; where the time goes; what it holds of the node's memory.
 * `npm run bench:install`. Needs what `npm run test:cluster` needs.
 */

const run = promisify(execFile);
/** Steps shorter than this are not worth a line, in s. */
const WORTH_TELLING = 1;
/** A line for each process of a pod: the pod's uid and its resident KiB. */
const PROCESSES = `for p in /proc/[0-9]*; do
  pod=$(grep -oE 'pod[0-9a-f]{8}[-_][0-9a-f_-]{27}' $p/cgroup 2>/dev/null | head -1)
  rss=$(awk '/^VmRSS/ { print $2 }' $p/status 2>/dev/null)
  if [ -n "$pod" ] && [ -n "$rss" ]; then echo "$pod $rss"; fi
done`;

const installation = await Installation.prepare();
try {
  row("from nothing (first build included) to an answer", 120, await timed(installation));
  await memory();
  row("nothing changed: ./install.sh", 30, await installation.install());
  row("nothing changed: pulumi up", 12, await updated(installation));
  await writeAgent(installation, "poet", "A poem.");
  row("one agent more, to its answer: pulumi up", 20, await updated(installation, "poet"));
  await writeAgent(installation, "critic", "A verdict.");
  row("one agent more, to its answer: ./install.sh", 30, await timed(installation, "critic"));
  row("uninstalled", 20, await installation.uninstall());
} finally {
  await installation.dispose();
}

/** Installs and asks an agent; the time of both. */
async function timed(platform: Installation, graphId = "assistant") {
  const began = performance.now();
  const { code, output } = await platform.install();
  if (code !== 0) throw new Error(output);
  await answered(platform, graphId);
  return { output, seconds: (performance.now() - began) / 1_000 };
}

async function answered(platform: Installation, graphId: string): Promise<void> {
  const answer = await ask(platform, graphId, "Hello.");
  if (!answer.startsWith("{")) throw new Error(answer);
}

/** The same by Pulumi alone. */
async function updated(platform: Installation, graphId?: string) {
  const began = performance.now();
  await platform.pulumi("up", "--stack", "local", "--yes", "--skip-preview");
  if (graphId !== undefined) await answered(platform, graphId);
  return { output: "", seconds: (performance.now() - began) / 1_000 };
}

function row(
  what: string,
  limit: number,
  { seconds, output }: Pick<Finished, "seconds" | "output">,
) {
  console.log(
    `${what.padEnd(50)} ${seconds.toFixed(1).padStart(7)} s   (must hold: under ${limit})`,
  );
  for (const [, step = "", took = ""] of output.matchAll(/^✓ (.+) \(([\d.]+) s\)$/gm)) {
    if (Number(took) >= WORTH_TELLING) console.log(`    ${step.padEnd(60)} ${took.padStart(6)} s`);
  }
}

/** Prints the resident memory of each pod's processes, the sandbox's own among them. */
async function memory(): Promise<void> {
  const { stdout } = await run("docker", ["exec", NODE, "sh", "-c", PROCESSES]);
  const kibibytes = new Map<string, number>();
  for (const line of stdout.trim().split("\n")) {
    const [pod = "", rss] = line.split(" ");
    const uid = pod.slice("pod".length).replaceAll("_", "-");
    kibibytes.set(uid, (kibibytes.get(uid) ?? 0) + Number(rss));
  }
  const pods = await installation.kubectl(
    ...[
      "get",
      "pods",
      "--all-namespaces",
      "--field-selector=metadata.namespace!=kube-system",
      "-o",
    ],
    'jsonpath={range .items[*]}{.metadata.uid}{" "}{.metadata.name}{"\\n"}{end}',
  );
  let sum = 0;
  for (const line of pods.trim().split("\n")) {
    const [uid = "", name = ""] = line.split(" ");
    const mebibytes = (kibibytes.get(uid) ?? 0) / 1_024;
    sum += mebibytes;
    console.log(`    ${name.padEnd(60)} ${mebibytes.toFixed(0).padStart(6)} MiB`);
  }
  console.log(
    `memory of all pods but Kubernetes' own: ${sum.toFixed(0)} MiB   (must hold: under 1536)`,
  );
}
