import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import { Journal, jsonOf, startWorker, type TestWorker } from "../support/worker.ts";
import { expectRisingIds, sentEvents } from "../support/worker-events.ts";
import { IMPATIENT } from "../support/worker-pair.ts";

const counter = { graphId: "counter" };
const steps = { graphId: "steps" };

describe("a worker whose database is restarted", () => {
  let postgres: TestPostgres;
  let worker: TestWorker;
  let journal: Journal;

  before(async () => {
    postgres = await startTestPostgres();
    worker = await startWorker(postgres, { ...IMPATIENT, DRAIN_MS: "500" });
    journal = await Journal.create();
  });
  after(async () => {
    await worker.stop();
    await postgres.stop();
    await journal.remove();
  });

  async function query(text: string, values: unknown[] = []): Promise<pg.QueryResult> {
    const client = new pg.Client({ connectionString: postgres.adminUrl });
    await client.connect();
    try {
      return await client.query(text, values);
    } finally {
      await client.end();
    }
  }

  for (const mode of ["fast", "immediate"] as const) {
    it(`under load (${mode}) ends every accepted run, none twice`, async () => {
      const client = await worker.client(counter);
      const threads = await Promise.all(
        Array.from({ length: 4 }, async () => (await client.threads.create()).thread_id),
      );
      const accepted: string[] = [];
      const outputs: Promise<unknown>[] = [];
      let isOver = false;

      /** Calls until the load is over; a refusal is a 503, never anything else. */
      const load = async (path: () => string, read: (answer: Response) => Promise<unknown>) => {
        while (!isOver) {
          const answer = await worker.call(counter, "POST", path(), {
            assistant_id: "counter",
            input: { count: 1 },
          });
          if (answer.status !== 200) {
            expect(answer.status).to.equal(503);
            continue;
          }
          const place = answer.headers.get("content-location") ?? "";
          accepted.push(place.split("/").at(-1) ?? "");
          const output = read(answer);
          outputs.push(output);
          await output;
        }
      };
      const loads = [
        ...threads.map((id) => load(() => `/threads/${id}/runs/wait`, jsonOf)),
        ...threads.map((id) => load(() => `/threads/${id}/runs`, jsonOf)),
        load(() => "/runs/wait", jsonOf),
        load(
          () => "/runs/stream",
          async (answer) => {
            const events = await collect(sentEvents(answer));
            expectRisingIds(events);
            expect(events.at(-1)).to.deep.include({ event: "values", data: { count: 2 } });
          },
        ),
      ];
      await eventually("runs are under way", () => accepted.length > 40);
      await postgres.restart(mode);
      const count = accepted.length;
      await eventually("runs are accepted again", () => accepted.length > count + 40, 20_000);
      isOver = true;
      await Promise.all(loads);
      expect((await Promise.all(outputs)).filter((output) => hasError(output))).to.deep.equal([]);

      await eventually("nothing is left to do", async () => {
        const { rows } = await query(
          "SELECT 1 FROM worker.run WHERE status IN ('pending', 'running')",
        );
        return rows.length === 0;
      });
      const ended = await query("SELECT run_id, status, thread_id, ephemeral FROM worker.run");
      const statusOf = new Map(ended.rows.map((row) => [row.run_id, row.status]));
      expect(accepted.filter((id) => statusOf.get(id) !== "success")).to.deep.equal([]);
      for (const threadId of threads) {
        const { values } = await client.threads.getState(threadId);
        const runs = ended.rows.filter((row) => row.thread_id === threadId);
        // Each run adds what it was given and one more; twice would show, and so would never.
        expect(values).to.deep.equal({ count: 2 * runs.length });
        expect((await client.threads.get(threadId)).status).to.equal("idle");
      }
    });
  }

  it("in the middle of a run and of its stream goes on with both, and loses nothing", async () => {
    const client = await worker.client(steps);
    const { thread_id } = await client.threads.create();
    const [name, gate] = [randomUUID(), randomUUID()];
    const input = { journal: journal.path(name), gate: journal.path(gate), label: "a" };
    const answer = await worker.call(steps, "POST", `/threads/${thread_id}/runs/stream`, {
      assistant_id: "steps",
      input,
      stream_mode: ["updates", "values"],
    });
    await journal.has(name, "second a");
    await postgres.restart("immediate");
    await journal.open(gate);
    const events = await collect(sentEvents(answer));
    expectRisingIds(events);
    const values = { ...input, done: ["first a", "second a"] };
    expect(events.at(-1)?.data).to.deep.equal(values);
    // Also what only the first steps have written, shortly before the crash.
    expect((await client.threads.getState(thread_id)).values).to.deep.equal(values);
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
  });

  it("hears of work and of cancellations again", async () => {
    await postgres.restart("fast");
    const client = await worker.client(steps);
    const { thread_id } = await client.threads.create();
    const [name, gate] = [randomUUID(), randomUUID()];
    const run = await client.runs.create(thread_id, "steps", {
      input: { journal: journal.path(name), gate: journal.path(gate), label: "a" },
    });
    await journal.has(name, "second a");
    await client.runs.cancel(thread_id, run.run_id, true);
    expect((await client.runs.get(thread_id, run.run_id)).status).to.equal("interrupted");
    await eventually("it listens", async () => {
      const { rows } = await query(
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'worker-listen'",
      );
      return rows.length === 1;
    });
  });

  it("says that it is not ready as long as it is", async () => {
    await postgres.restart("fast", async () => {
      await eventually("it is not ready", async () => {
        return (await worker.call(undefined, "GET", "/ready")).status === 503;
      });
      expect((await worker.call(undefined, "GET", "/live")).status).to.equal(200);
    });
    await eventually("it is ready", async () => {
      return (await worker.call(undefined, "GET", "/ready")).status === 200;
    });
  });

  it("can be told to stop while the database is away", async () => {
    const client = await worker.client(steps);
    const { thread_id } = await client.threads.create();
    const [name, gate] = [randomUUID(), randomUUID()];
    const run = await client.runs.create(thread_id, "steps", {
      input: { journal: journal.path(name), gate: journal.path(gate), label: "a" },
    });
    await journal.has(name, "second a");
    await postgres.restart("fast", async () => {
      expect(await worker.stop()).to.equal(0);
    });
    await journal.open(gate);
    await worker.start();
    const values = await (await worker.client(steps)).runs.join(thread_id, run.run_id);
    expect(values).to.deep.include({ done: ["first a", "second a"] });
  });

  it("logs no error that nobody expected", () => {
    const errors = worker.log.split("\n").filter((line) => line.includes('"level":50'));
    const unexpected = errors.filter((line) => !/background work failed/.test(line));
    expect(unexpected).to.deep.equal([]);
  });
});

function hasError(output: unknown): boolean {
  return typeof output === "object" && output !== null && "__error__" in output;
}
