import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { jsonOf } from "../support/worker.ts";
import { expectRisingIds, sentEvents } from "../support/worker-events.ts";
import { WorkerPair } from "../support/worker-pair.ts";

const caller = { graphId: "steps" };

describe("a worker that hangs while another one takes over", () => {
  let pair: WorkerPair;
  let journal: string;
  let gate: string;

  before(async () => {
    // The first worker does not learn that it lost its lease: all that it tries to write has to be
    // refused.
    pair = await WorkerPair.prepare({}, { HEARTBEAT_MS: "3600000", REAPER_MS: "3600000" });
  });
  beforeEach(async () => {
    [journal, gate] = [randomUUID(), randomUUID()];
    await pair.ready();
  });
  after(() => pair.stop());

  it("writes nothing any more when it wakes up", async () => {
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "steps", {
      input: {
        journal: pair.journal.path(journal),
        gate: pair.journal.path(gate),
        label: "a",
      },
      streamMode: ["values", "updates"],
    });
    await pair.journal.has(journal, "second a");
    await pair.checkpointed(run.run_id, 1);
    pair.a.pause();
    await pair.b.start();
    await pair.journal.open(gate);
    const other = await pair.b.client(caller);
    const output = await other.runs.join(thread_id, run.run_id);
    expect(output).to.deep.include({ done: ["first a", "second a"] });
    const stored = await pair.stored(run.run_id);

    const told = pair.a.log.length;
    pair.a.resume();
    await eventually("it gave up", () => pair.a.log.slice(told).includes('"status":"lease lost"'));
    // It did all of its work before it was told.
    expect(
      (await pair.journal.lines(journal)).filter((line) => line.startsWith("second-ends")),
    ).to.have.length(2);
    expect(await pair.stored(run.run_id)).to.deep.equal(stored);
    const events = await collect(
      sentEvents(await pair.a.call(caller, "GET", `/runs/${run.run_id}/stream`)),
    );
    expectRisingIds(events);
    expect(events.at(-1)?.data).to.deep.equal(output);
    // It is a worker like any other again.
    const values = await client.runs.wait(null, "steps", {
      input: { journal: pair.journal.path(journal), label: "after" },
    });
    expect(values).to.deep.include({ done: ["first after", "second after"] });
  });
});

describe("a worker that lost its lease and takes the run up again itself", () => {
  it("goes on with the new attempt only", async () => {
    const pair = await WorkerPair.prepare();
    try {
      await pair.a.start();
      const client = await pair.a.client(caller);
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "steps", {
        input: {
          journal: pair.journal.path("journal"),
          gate: pair.journal.path("gate"),
          label: "stubborn",
        },
      });
      await pair.journal.has("journal", "second stubborn");
      await pair.checkpointed(run.run_id, 1);
      // As if its lease had run out while the worker hung, and its reaper came before its heartbeat.
      await pair.query(
        `UPDATE worker.run SET status = 'pending', claim_token = NULL, lease_until = NULL
           WHERE run_id = $1`,
        [run.run_id],
      );
      const signal = JSON.stringify({ changed: [], cancelled: [], isQueued: true });
      await pair.query("SELECT pg_notify('worker_signals', $1)", [signal]);
      await eventually("it was started again", async () => {
        const lines = await pair.journal.lines("journal");
        return lines.filter((line) => line === "second stubborn").length === 2;
      });
      // The first attempt ends only now, beside the second one, whose lease must be kept.
      await eventually("the first attempt gave up", () =>
        pair.a.log.includes('"status":"lease lost"'),
      );
      const lease = async () => {
        const { rows } = await pair.query(
          "SELECT lease_until, attempt FROM worker.run WHERE run_id = $1",
          [run.run_id],
        );
        return rows[0];
      };
      const before = await lease();
      await eventually(
        "the lease of the second attempt is renewed",
        async () => (await lease()).lease_until > before.lease_until,
      );
      await pair.journal.open("gate");
      const values = await client.runs.join(thread_id, run.run_id);
      expect(values).to.deep.include({ done: ["first stubborn", "second stubborn"] });
      expect(await lease()).to.deep.equal({ lease_until: null, attempt: 2 });
    } finally {
      await pair.stop();
    }
  });
});

describe("a worker that is told to stop", () => {
  let pair: WorkerPair;
  let journal: string;
  let gate: string;

  before(async () => {
    // A lease for hours: only what is given back can go on; and a single attempt, so that giving
    // back must not count as one.
    const patient = { LEASE_MS: "36000000", HEARTBEAT_MS: "1000", MAX_ATTEMPTS: "1" };
    pair = await WorkerPair.prepare(patient, { DRAIN_MS: "300" });
  });
  beforeEach(async () => {
    [journal, gate] = [randomUUID(), randomUUID()];
    await pair.ready();
    await pair.b.start();
  });
  after(() => pair.stop());

  const input = (label: string) => ({
    journal: pair.journal.path(journal),
    gate: pair.journal.path(gate),
    label,
  });

  it("finishes what can be finished", async () => {
    const answer = await pair.a.call(caller, "POST", "/runs/wait", {
      assistant_id: "steps",
      input: input("a"),
    });
    await pair.journal.has(journal, "second a");
    const stopped = pair.a.stop();
    await pair.journal.open(gate);
    expect(await jsonOf(answer)).to.deep.include({ done: ["first a", "second a"] });
    expect(await stopped).to.equal(0);
    expect(await pair.journal.lines(journal)).to.deep.equal([
      "first a",
      "second a",
      "second-ends a",
    ]);
  });

  for (const label of ["a", "stubborn"]) {
    it(`gives back at once what takes longer, with a node that is ${label}`, async () => {
      const client = await pair.a.client(caller);
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "steps", { input: input(label) });
      const path = `/threads/${thread_id}/runs/${run.run_id}/stream`;
      const following = collect(sentEvents(await pair.b.call(caller, "GET", path)));
      await pair.journal.has(journal, `second ${label}`);
      expect(await pair.a.stop()).to.equal(0);
      await eventually("the other one took over", async () => {
        const lines = await pair.journal.lines(journal);
        return lines.filter((line) => line === `second ${label}`).length === 2;
      });
      await pair.journal.open(gate);
      const events = await following;
      expectRisingIds(events);
      expect(
        events.filter(({ event }) => event === "metadata").map(({ data }) => data.attempt),
      ).to.deep.equal([1, 2]);
      expect(events.at(-1)?.data).to.deep.include({ done: [`first ${label}`, `second ${label}`] });
      expect(await pair.journal.lines(journal)).to.deep.equal([
        `first ${label}`,
        `second ${label}`,
        `second ${label}`,
        `second-ends ${label}`,
      ]);
    });
  }

  it("gives back a run of its own with what it has done", async () => {
    const answer = await pair.a.call(caller, "POST", "/runs/wait", {
      assistant_id: "steps",
      input: input("a"),
    });
    await pair.journal.has(journal, "second a");
    await Promise.all([pair.a.stop(), failureOf(answer.text())]);
    await pair.journal.open(gate);
    const location = answer.headers.get("location") ?? "";
    const values = await jsonOf(pair.b.call(caller, "GET", location));
    expect(values.done).to.deep.equal(["first a", "second a"]);
    const lines = await pair.journal.lines(journal);
    expect(lines.filter((line) => line === "first a")).to.have.length(1);
  });

  it("does not take its clients for gone", async () => {
    const answer = await pair.a.call(caller, "POST", "/runs/stream", {
      assistant_id: "steps",
      input: input("a"),
      on_disconnect: "cancel",
    });
    await pair.journal.has(journal, "second a");
    await Promise.all([pair.a.stop(), failureOf(answer.text())]);
    const place = answer.headers.get("content-location") ?? "";
    const cancelled = await pair.query("SELECT cancel_action FROM worker.run WHERE run_id = $1", [
      place.split("/").at(-1),
    ]);
    expect(cancelled.rows).to.deep.equal([{ cancel_action: null }]);
    await pair.journal.open(gate);
    const values = await jsonOf(pair.b.call(caller, "GET", `${place}/join`));
    expect(values.done).to.deep.equal(["first a", "second a"]);
  });

  it("gives back what the database hands out after that", async () => {
    await pair.b.kill();
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    const later = { input: { ...input("a"), gate: null }, afterSeconds: 3_600 };
    const run = await client.runs.create(thread_id, "steps", later);
    const lock = await pair.lockRuns();
    await lock.query("UPDATE worker.run SET available_at = now() WHERE run_id = $1", [run.run_id]);
    await eventually("it asks for runs", async () => {
      const { rowCount } = await pair.query(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%SKIP LOCKED%'",
      );
      return rowCount !== 0;
    });
    const told = pair.a.log.length;
    const stopped = pair.a.stop();
    await eventually("it was told", () => pair.a.log.slice(told).includes("stopping"));
    await lock.release();
    expect(await stopped).to.equal(0);

    const { rows } = await pair.query(
      "SELECT status, attempt, released FROM worker.run WHERE run_id = $1",
      [run.run_id],
    );
    expect(rows).to.deep.equal([{ status: "pending", attempt: 1, released: 1 }]);
  });
});
