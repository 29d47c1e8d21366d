import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { jsonOf } from "../support/worker.ts";
import { expectRisingIds, type SentEvent, sentEvents } from "../support/worker-events.ts";
import { WorkerPair } from "../support/worker-pair.ts";

const caller = { graphId: "steps" };

describe("two replicas of a worker", () => {
  let pair: WorkerPair;
  let journal: string;
  let gate: string;

  before(async () => {
    pair = await WorkerPair.prepare({ LEASE_MS: "15000", CONCURRENT_RUNS: "1" });
    await Promise.all([pair.a.start(), pair.b.start()]);
  });
  beforeEach(() => {
    [journal, gate] = [randomUUID(), randomUUID()];
  });
  after(() => pair.stop());

  const input = (label: string, waits = true) => ({
    journal: pair.journal.path(journal),
    gate: waits ? pair.journal.path(gate) : null,
    label,
  });

  it("never run two runs of one thread at a time, and none twice", async () => {
    const clients = await Promise.all([pair.a.client(caller), pair.b.client(caller)]);
    const [client] = clients;
    const threads = await Promise.all([1, 2, 3].map(() => client.threads.create()));
    const runs = await Promise.all(
      Array.from({ length: 45 }, async (_, n) => {
        const { thread_id } = threads[n % 3] ?? {};
        const own = { ...input(`run-${n}`, false), journal: pair.journal.path(`${thread_id}`) };
        return clients[n % 2]?.runs.create(thread_id ?? "", "steps", { input: own });
      }),
    );
    for (const run of runs) await client.runs.join(run?.thread_id ?? "", run?.run_id ?? "");

    for (const { thread_id } of threads) {
      const lines = await pair.journal.lines(thread_id);
      const order = lines.flatMap((line) => (line.startsWith("first ") ? [line.slice(6)] : []));
      expect(new Set(order).size).to.equal(15);
      expect(lines).to.deep.equal(
        order.flatMap((label) => [`first ${label}`, `second ${label}`, `second-ends ${label}`]),
      );
      const { values } = await client.threads.getState(thread_id);
      expect((values as { done: string[] }).done).to.deep.equal(
        order.flatMap((label) => [`first ${label}`, `second ${label}`]),
      );
    }
  });

  it("let through one of many runs that tolerate no other", async () => {
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        (n % 2 === 0 ? pair.a : pair.b).call(caller, "POST", `/threads/${thread_id}/runs`, {
          assistant_id: "steps",
          input: input(`run-${n}`),
          multitask_strategy: "reject",
        }),
      ),
    );
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).to.deep.equal([200, ...Array.from({ length: 29 }, () => 409)]);
    await pair.journal.open(gate);
    const [run] = await client.runs.list(thread_id);
    await client.runs.join(thread_id, run?.run_id ?? "");
    expect(await pair.journal.lines(journal)).to.have.length(3);
  });

  it("leave the last of many runs that interrupt each other", async () => {
    const clients = await Promise.all([pair.a.client(caller), pair.b.client(caller)]);
    const [client] = clients;
    const { thread_id } = await client.threads.create();
    const runs = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        clients[n % 2]?.runs.create(thread_id, "steps", {
          input: input(`run-${n}`),
          multitaskStrategy: "interrupt",
        }),
      ),
    );
    await pair.journal.open(gate);
    for (const run of runs) await client.runs.join(thread_id, run?.run_id ?? "");
    const ended = await client.runs.list(thread_id, { limit: 100 });
    const successes = ended.filter(({ status }) => status === "success");
    expect(
      ended.filter(({ status }) => status === "interrupted").length + successes.length,
    ).to.equal(12);
    expect(successes.length).to.be.greaterThan(0);
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
  });

  it("show the same stream, whichever one executes the run", async () => {
    const events = { graphId: "events" };
    const client = await pair.a.client(events);
    const run = await client.runs.create(null, "events", {
      input: { count: 1_000, characters: 2_000, gate: pair.journal.path(gate) },
      streamMode: "custom",
    });
    const path = `/runs/${run.run_id}/stream`;
    const streams = await Promise.all(
      [pair.a, pair.b].map(async (worker) => sentEvents(await worker.call(events, "GET", path))),
    );
    const seen: SentEvent[][] = await Promise.all(
      streams.map(async (stream) => {
        const all: SentEvent[] = [];
        for await (const event of stream) {
          all.push(event);
          // Both have seen all but the last event while the run was still going on.
          if (all.length === 1_000) await pair.journal.open(gate);
        }
        return all;
      }),
    );
    expectRisingIds(seen[0] ?? []);
    expect(seen[0]).to.have.length(1_001);
    expect(seen[1]).to.deep.equal(seen[0]);
    const resumed = await pair.b.call(events, "GET", path, undefined, {
      headers: { "last-event-id": String(seen[0]?.[500]?.id) },
    });
    expect(await collect(sentEvents(resumed))).to.deep.equal(seen[0]?.slice(501));
  });

  it("cancel what the other one executes", async () => {
    const clients = await Promise.all([pair.a.client(caller), pair.b.client(caller)]);
    const [client] = clients;
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "steps", { input: input("a") });
    await pair.journal.has(journal, "second a");
    await Promise.all(clients.map((each) => each.runs.cancel(thread_id, run.run_id, true)));
    expect((await client.runs.get(thread_id, run.run_id)).status).to.equal("interrupted");
    expect(await pair.journal.lines(journal)).not.to.include("second-ends a");
  });

  it("wait for a run together, wherever it ends", async () => {
    const answer = await pair.a.call(caller, "POST", "/runs/wait", {
      assistant_id: "steps",
      input: input("a"),
    });
    const joined = pair.b.call(caller, "GET", answer.headers.get("location") ?? "").then(jsonOf);
    await pair.journal.has(journal, "second a");
    await pair.journal.open(gate);
    expect(await joined).to.deep.equal(await jsonOf(answer));
  });

  it("start what waits as soon as there is room", async () => {
    const counter = { graphId: "counter" };
    const client = await pair.a.client(counter);
    const hold = await pair.a.client(caller);
    const held = await Promise.all(
      Array.from({ length: 4 }, (_, n) =>
        hold.runs.create(null, "steps", { input: input(`held-${n}`) }),
      ),
    );
    await eventually(
      "all places are taken",
      async () => (await pair.journal.lines(journal)).filter((l) => /^second /.test(l)).length >= 2,
    );
    const runs = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        client.runs.create(null, "counter", { input: { count: n } }),
      ),
    );
    await pair.journal.open(gate);
    // With a second of idling after every few runs this would take a quarter of a minute.
    await eventually(
      "all have ended",
      async () => {
        const ids = [...runs, ...held].map(({ run_id }) => run_id);
        const { rows } = await pair.query(
          "SELECT 1 FROM worker.run WHERE run_id = ANY($1) AND status <> 'success'",
          [ids],
        );
        return rows.length === 0;
      },
      8_000,
    );
  });
});
