import { rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import pg from "pg";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { sharedPostgres } from "../support/shared-worker.ts";
import { Journal, jsonOf, startWorker, type TestWorker } from "../support/worker.ts";

const LANGGRAPH_CONFIG = resolve(
  import.meta.dirname,
  "../fixtures/worker-graph-functions/langgraph.json",
);
const caller = { graphId: "moody" };
const input = { count: 1 };

/** A worker whose agent exports its graph as a function that behaves as a test likes. */
class MoodyWorker {
  readonly worker: TestWorker;
  readonly journal: Journal;
  readonly #pool: pg.Pool;

  private constructor(worker: TestWorker, journal: Journal, pool: pg.Pool) {
    this.worker = worker;
    this.journal = journal;
    this.#pool = pool;
  }

  static async start(environment: Record<string, string> = {}): Promise<MoodyWorker> {
    const database = await (await sharedPostgres()).createDatabase();
    const journal = await Journal.create();
    const worker = await startWorker(database, {
      LANGGRAPH_CONFIG,
      MOOD: journal.path("mood"),
      JOURNAL: journal.path("journal"),
      GATE: journal.path("gate"),
      ...environment,
    });
    return new MoodyWorker(worker, journal, new pg.Pool({ connectionString: database.url() }));
  }

  async be(
    mood: "well" | "throws" | "hangs" | "breaks" | "breaks late" | "router hangs" | "router breaks",
  ): Promise<void> {
    await writeFile(this.journal.path("mood"), mood);
  }

  /** How often a run was claimed, and given back. */
  async claims(runId: string): Promise<{ attempt: number; released: number }> {
    const { rows } = await this.#pool.query(
      "SELECT attempt, released FROM worker.run WHERE run_id = $1",
      [runId],
    );
    return rows[0];
  }

  /** Does `work` while what `write` begins waits for its thread. */
  async whileWaiting<T>(
    threadId: string,
    write: () => Promise<T>,
    work: () => Promise<void>,
  ): Promise<T> {
    const holder = await this.#pool.connect();
    try {
      await holder.query("BEGIN");
      await holder.query("SELECT 1 FROM worker.thread WHERE thread_id = $1 FOR UPDATE", [threadId]);
      const {
        rows: [own],
      } = await holder.query("SELECT pg_backend_pid() AS pid");
      const written = write();
      await eventually("a write waits", async () => {
        const { rowCount } = await this.#pool.query(
          "SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))",
          [own.pid],
        );
        return rowCount === 1;
      });
      await work();
      await holder.query("COMMIT");
      return await written;
    } finally {
      holder.release(true);
    }
  }

  async stop(): Promise<void> {
    await this.worker.kill();
    await this.#pool.end();
    await this.journal.remove();
  }
}

type Request = (threadId: string) => readonly [method: string, path: string, body?: object];
const LOOKS: Record<string, Request> = {
  "a look at the state": (id) => ["GET", `/threads/${id}/state`],
  "a look at the history": (id) => ["POST", `/threads/${id}/history`, {}],
  "an update by hand": (id) => ["POST", `/threads/${id}/state`, { values: input, as_node: "add" }],
  "a new thread with a state": () => [
    "POST",
    "/threads",
    { supersteps: [{ updates: [{ values: input, as_node: "add" }] }] },
  ],
  "the drawing": () => ["GET", "/assistants/moody/graph"],
};
const MISSPELLED: Request = (id) => [
  "POST",
  `/threads/${id}/runs/wait`,
  { assistant_id: "moody", input, interrupt_before: ["ad"] },
];

describe("a graph's function that a request needs", () => {
  let moody: MoodyWorker;
  let worker: TestWorker;
  let client: Client;
  let threadId: string;
  let bystander: string;
  let pid: number;

  before(async () => {
    moody = await MoodyWorker.start();
    worker = moody.worker;
    pid = worker.pid;
    const steps = await worker.client({ graphId: "steps" });
    const { thread_id } = await steps.threads.create();
    const gate = moody.journal.path("bystander");
    const run = await steps.runs.create(thread_id, "steps", {
      input: { journal: moody.journal.path("steps"), gate, label: "a" },
    });
    bystander = run.run_id;
    await moody.journal.has("steps", "second a");
    await moody.be("well");
    client = await worker.client(caller);
    threadId = (await client.threads.create()).thread_id;
    await client.runs.wait(threadId, "moody", { input });
  });
  afterEach(async () => {
    expect(worker.isRunning && worker.pid, "the same worker").to.equal(pid);
    expect(await moody.claims(bystander), "another agent's run").to.deep.equal({
      attempt: 1,
      released: 0,
    });
  });
  after(() => moody.stop());

  const send = (request: Request, id = threadId) => worker.call(caller, ...request(id));

  for (const [what, request] of Object.entries(LOOKS)) {
    it(`and that breaks where nobody waits, fails that request only (${what})`, async () => {
      await moody.be("breaks");

      const answer = await send(request);

      expect(answer.status).to.equal(422);
      expect((await jsonOf(answer)).message)
        .to.include("graph moody")
        .and.include("socket broke");
    });

    it(`and that breaks after the answer, is only logged (${what})`, async () => {
      await moody.be("breaks late");
      const logged = worker.log.length;

      const answer = await send(request);

      expect(answer.status).to.equal(200);
      await moody.journal.open("gate");
      await eventually("it broke", () => worker.log.slice(logged).includes("socket broke"));
      await moody.journal.shut("gate");
    });

    it(`and that throws, is the agent's fault, by what it says (${what})`, async () => {
      await moody.be("throws");
      const logged = worker.log.length;

      const answer = await send(request);

      expect(answer.status).to.equal(422);
      expect((await jsonOf(answer)).message).to.include("no key for the weather");
      await eventually("the log has it as a warning", () =>
        worker.log
          .slice(logged)
          .split("\n")
          .some((line) => line.includes('"level":40') && line.includes("no key for the weather")),
      );
      expect(worker.log.slice(logged)).not.to.include('"level":50');
    });
  }

  describe("for an update by hand", () => {
    let updatedId: string;
    const update = (init?: { signal: AbortSignal }) =>
      worker.call(
        caller,
        "POST",
        `/threads/${updatedId}/state`,
        { values: input, as_node: "add" },
        init,
      );
    const checkpoints = async () =>
      (await client.threads.getHistory(updatedId)).map((state) => state.checkpoint.checkpoint_id);

    /** A second update, written after whatever the first one might still write. */
    async function expectNothingStoredLate() {
      await moody.be("well");
      await moody.journal.open("gate");
      await moody.journal.has("journal", "knows the way");
      await moody.journal.shut("gate");
      const { checkpoint } = await jsonOf(update());
      expect(await checkpoints()).to.deep.equal([checkpoint.checkpoint_id]);
    }

    beforeEach(async () => {
      updatedId = (await client.threads.create()).thread_id;
      await rm(moody.journal.path("journal"), { force: true });
    });

    it("whose router never settles, is told as such after 10 s and stores nothing", async () => {
      await moody.be("router hangs");

      const answer = await update();

      expect(answer.status).to.equal(504);
      expect(await jsonOf(answer)).to.include({ error: "graph_timeout" });
      await expectNothingStoredLate();
    });

    it("whose router never settles, is given up with its client and stores nothing", async () => {
      await moody.be("router hangs");
      const logged = worker.log.length;
      const left = new AbortController();
      const told = failureOf(update({ signal: left.signal }));
      await moody.journal.has("journal", "asked for the way");

      left.abort();

      await told;
      await eventually("the request is over", () =>
        worker.log.slice(logged).includes('"status":499'),
      );
      await expectNothingStoredLate();
    });

    it("whose router breaks where nobody waits, fails it and stores nothing", async () => {
      await moody.be("router breaks");

      const answer = await update();

      expect(answer.status).to.equal(422);
      expect((await jsonOf(answer)).message).to.include("socket broke");
      await expectNothingStoredLate();
    });

    it("and that breaks while it is written, is only logged", async () => {
      await moody.be("breaks late");
      const logged = worker.log.length;

      const answer = await moody.whileWaiting(updatedId, update, async () => {
        await moody.journal.open("gate");
        await eventually("it broke", () => worker.log.slice(logged).includes("socket broke"));
        await moody.journal.shut("gate");
      });

      expect(answer.status).to.equal(200);
      await moody.be("well");
      const { checkpoint } = await jsonOf(answer);
      expect(await checkpoints()).to.deep.equal([checkpoint.checkpoint_id]);
    });
  });

  it("and that breaks while the nodes are checked, fails the run that it is for", async () => {
    await moody.be("breaks");
    expect(await jsonOf(send(MISSPELLED))).to.deep.equal({
      __error__: { error: "Error", message: "the socket broke" },
    });
  });

  it("and that breaks after the nodes were checked, is only logged", async () => {
    await moody.be("breaks late");
    const logged = worker.log.length;

    const answer = await send(MISSPELLED);

    expect(answer.status).to.equal(422);
    expect((await jsonOf(answer)).message).to.include("it has add");
    await moody.journal.open("gate");
    await eventually("it broke", () => worker.log.slice(logged).includes("socket broke"));
    await moody.journal.shut("gate");
  });

  it("and that never comes to an end, is told as such after 10 s", async () => {
    await moody.be("hangs");

    const answers = await Promise.all(
      [...Object.values(LOOKS), MISSPELLED].map((look) => send(look)),
    );

    for (const answer of answers) {
      expect(answer.status, answer.url).to.equal(504);
      expect(await jsonOf(answer)).to.include({ error: "graph_timeout" });
    }
    expect(await client.runs.list(threadId, { status: "running" })).to.deep.equal([]);
  });

  it("is not waited for when the client has gone", async () => {
    await moody.be("hangs");
    const [logged, made] = [worker.log.length, (await moody.journal.lines("journal")).length];
    const left = new AbortController();
    const answer = worker.call(caller, "GET", `/threads/${threadId}/state`, undefined, {
      signal: left.signal,
    });
    const told = failureOf(answer);
    await eventually("it is being made", async () => {
      return (await moody.journal.lines("journal")).length > made;
    });

    left.abort();

    await told;
    await eventually("the request is over", () =>
      worker.log.slice(logged).includes('"status":499'),
    );
  });

  it("is not needed where a thread has no checkpoint yet", async () => {
    await moody.be("throws");
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "moody", { input, raiseError: false });

    const state = await client.threads.getState(thread_id);

    expect(state).to.deep.include({ values: {}, next: [], tasks: [], created_at: null });
    expect(state.checkpoint).to.include({ thread_id, checkpoint_id: null });
    expect(await client.threads.getHistory(thread_id)).to.deep.equal([]);
  });
});

describe("a run whose graph's function never comes to an end", () => {
  let moody: MoodyWorker;
  let client: Client;

  beforeEach(async () => {
    // Room for one run, and a lease for hours: nobody else ends it, and its end is seen by the next.
    const environment = { CONCURRENT_RUNS: "1", LEASE_MS: "36000000", DRAIN_MS: "300" };
    moody = await MoodyWorker.start(environment);
    client = await moody.worker.client(caller);
  });
  afterEach(() => moody.stop());

  async function startHanging() {
    await moody.be("hangs");
    const { thread_id } = await client.threads.create();
    const { run_id } = await client.runs.create(thread_id, "moody", { input });
    await moody.journal.has("journal", "hangs");
    await moody.be("well");
    return { thread_id, run_id };
  }
  const expectRoom = async () =>
    expect(await client.runs.wait(null, "moody", { input })).to.deep.equal({ count: 2 });

  it("is cancelled at once and makes room for the next one", async () => {
    const { thread_id, run_id } = await startHanging();

    await client.runs.cancel(thread_id, run_id, true);

    expect((await client.runs.get(thread_id, run_id)).status).to.equal("interrupted");
    await expectRoom();
  });

  it("makes room when its thread is deleted", async () => {
    const { thread_id } = await startHanging();
    await client.threads.delete(thread_id);
    await expectRoom();
  });

  it("is given back when its worker stops", async () => {
    const { thread_id, run_id } = await startHanging();

    expect(await moody.worker.stop()).to.equal(0);

    expect(await moody.claims(run_id)).to.deep.equal({ attempt: 1, released: 1 });
    await moody.worker.start();
    client = await moody.worker.client(caller);
    expect(await client.runs.join(thread_id, run_id)).to.deep.equal({ count: 2 });
  });
});
