import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../runtime/embedded/free-port.ts";

/*
 * How long from `install.sh --embedded --demo` to the first answer of an agent: with no data yet,
 * and on data that is there. `npm run bench:start`.
 */

const INSTALL = resolve(import.meta.dirname, "../install.sh");
const WARM_STARTS = 3;
const PATIENCE_MS = 120_000;

const directory = await mkdtemp(join(tmpdir(), "platform-start-"));
try {
  const port = await freePort();
  console.log(`cold start to first answer: ${await timeToAnswer(port)} s   (must hold: under 60)`);
  for (let i = 0; i < WARM_STARTS; i++) {
    console.log(`warm start to first answer: ${await timeToAnswer(port)} s   (must hold: under 5)`);
  }
} finally {
  await rm(directory, { recursive: true, force: true });
}

async function timeToAnswer(port: number): Promise<string> {
  const started = performance.now();
  const child = spawn(
    INSTALL,
    ["--embedded", "--demo", "--port", String(port), "--data", directory],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  try {
    while (!(await answers(port))) {
      if (child.exitCode !== null) throw new Error(`install.sh ended with ${child.exitCode}`);
      if (performance.now() - started > PATIENCE_MS) throw new Error("no answer in time");
      await delay(20);
    }
    return ((performance.now() - started) / 1000).toFixed(1);
  } finally {
    await stop(child);
  }
}

async function answers(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/runs/wait`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: "Bearer local-dev-token",
        "x-graph-id": "assistant",
      },
      body: JSON.stringify({
        assistant_id: "assistant",
        input: { messages: [{ role: "human", content: "Hello." }] },
      }),
    });
    return (await response.text()).includes("demo provider");
  } catch (error) {
    // Nobody listens yet.
    if (error instanceof TypeError) return false;
    throw error;
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  child.kill("SIGINT");
  await once(child, "exit");
}
