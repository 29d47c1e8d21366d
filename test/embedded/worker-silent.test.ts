import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import { keepRunning } from "../../runtime/embedded/keep-running.ts";
import { Program } from "../../runtime/embedded/program.ts";
import { NeverGivesUp } from "../../runtime/embedded/restart-policy.ts";
import { eventually } from "../support/eventually.ts";
import { sharedPostgres } from "../support/shared-worker.ts";
import {
  ASSERTION_PUBLIC_KEY,
  assertionHeaders,
  type Caller,
  Journal,
  WORKER_ENTRY,
  WORKER_GRAPHS,
} from "../support/worker.ts";
import { IMPATIENT } from "../support/worker-pair.ts";

const answers = (url: string) =>
  fetch(`${url}/ready`).then(
    ({ ok }) => ok,
    () => false,
  );

describe("an agent that never gives anyone else a turn", () => {
  let logs: string;
  let journal: Journal;
  let worker: Program;
  let keeping: Promise<void>;
  const stopping = new AbortController();
  const deaths: string[] = [];

  before(async () => {
    logs = await mkdtemp(join(tmpdir(), "platform-silent-"));
    journal = await Journal.create();
    const database = await (await sharedPostgres()).createDatabase();
    worker = new Program({
      title: "Worker",
      entry: WORKER_ENTRY,
      nodeFlags: [],
      port: 0,
      logFile: join(logs, "worker.log"),
      patience: { everyMs: 500, probes: 4 },
      environment: () => ({
        ...IMPATIENT,
        MAX_ATTEMPTS: "3",
        BIND_ADDRESSES: "127.0.0.1",
        DATABASE_URL: database.url("worker"),
        LANGGRAPH_CONFIG: WORKER_GRAPHS,
        ASSERTION_PUBLIC_KEY,
      }),
    });
    await worker.start(() => {});
    keeping = keepRunning(worker, stopping.signal, new NeverGivesUp(), {
      died: (_, reason) => deaths.push(reason),
      back: () => {},
    });
  });
  after(async () => {
    stopping.abort();
    await worker.stop(2_000);
    await keeping;
    await journal.remove();
    await rm(logs, { recursive: true, force: true });
  });

  const client = async (caller: Caller) =>
    new Client({
      apiUrl: worker.url,
      apiKey: null,
      defaultHeaders: await assertionHeaders(caller),
      callerOptions: { maxRetries: 0 },
    });
  const start = async (graphId: string, input: Record<string, unknown>) => {
    const caller = { graphId };
    const before = await client(caller);
    const { thread_id } = await before.threads.create();
    const run = await before.runs.create(thread_id, graphId, { input });
    return async () => (await client(caller)).runs.join(thread_id, run.run_id);
  };

  it("is replaced with its worker, fails after its attempts, and the others go on", async () => {
    const joinLoop = await start("stray", {
      journal: journal.path("stray"),
      gate: journal.path("loop"),
      how: "loop",
    });
    await journal.has("stray", "loop");
    const joinBystander = await start("steps", {
      journal: journal.path("steps"),
      gate: journal.path("bystander"),
      label: "a",
    });
    await journal.has("steps", "second a");

    await journal.open("loop");

    await eventually("the worker was replaced for each attempt", () => deaths.length === 3, 45_000);
    await journal.open("bystander");
    for (const reason of deaths) expect(reason).to.include("did not answer for 2 s and was ended");
    await eventually("it is back", () => answers(worker.url), 20_000);
    expect(await joinLoop()).to.deep.equal({
      __error__: {
        error: "WorkerLost",
        message: "The run was started 3 times and no worker survived it.",
      },
    });
    // It was lost with its worker twice; the third time the loop had to go alone.
    expect(await joinBystander()).to.deep.include({ done: ["first a", "second a"] });
  });
});
