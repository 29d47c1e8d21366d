import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { collect } from "../support/collect.ts";
import { newCaller, type SharedWorker, sharedWorker } from "../support/shared-worker.ts";
import { startWorker, type TestWorker } from "../support/worker.ts";
import { expectRisingIds, type SentEvent, sentEvents } from "../support/worker-events.ts";

describe("who listens to a run", () => {
  let shared: SharedWorker;
  let worker: TestWorker;

  before(async () => {
    shared = await sharedWorker();
    worker = shared.worker;
  });

  const named = (events: SentEvent[]) => events.map(({ event }) => event);

  it("can be taken up from any event, or from the start", async () => {
    const caller = newCaller("events");
    const run = await worker.client(caller).then((client) =>
      client.runs.create(null, "events", {
        input: { count: 30, characters: 1 },
        streamMode: "custom",
      }),
    );
    const path = `/runs/${run.run_id}/stream`;
    const all = await collect(sentEvents(await worker.call(caller, "GET", path)));
    expectRisingIds(all);
    expect(all).to.have.length(31);
    for (const [header, expected] of [
      ["-1", all],
      [String(all[0]?.id), all.slice(1)],
      [String(all[15]?.id), all.slice(16)],
      [String(all[30]?.id), []],
    ] as const) {
      const answer = await worker.call(caller, "GET", path, undefined, {
        headers: { "last-event-id": header },
      });
      expect(await collect(sentEvents(answer)), `after ${header}`).to.deep.equal(expected);
    }
  });

  it("can be joined while the run goes on, by as many as like", async () => {
    const caller = newCaller("events");
    const client = await worker.client(caller);
    const gate = shared.journal.path(randomUUID());
    const run = await client.runs.create(null, "events", {
      input: { count: 10, gate },
      streamMode: "custom",
    });
    const join = async () =>
      sentEvents(await worker.call(caller, "GET", `/runs/${run.run_id}/stream`));
    const first = await join();
    const seen: SentEvent[] = [];
    while (seen.length < 10) {
      const next = await first.next();
      if (next.done) break;
      seen.push(next.value);
    }
    const second = collect(await join());
    await shared.journal.open(gate.split("/").at(-1) ?? "");
    seen.push(...(await collect(first)));
    expect(seen.map(({ data }) => data.n)).to.deep.equal([
      undefined,
      1,
      2,
      3,
      4,
      5,
      6,
      7,
      8,
      9,
      10,
    ]);
    expect(await second).to.deep.equal(seen);
  });

  for (const query of [
    "stream_mode=custom",
    "stream_mode=custom,updates",
    "stream_mode=custom&stream_mode=updates",
  ]) {
    it(`can be joined for some modes only: ?${query}`, async () => {
      const caller = newCaller("events");
      const client = await worker.client(caller);
      const run = await client.runs.create(null, "events", {
        input: { count: 1 },
        streamMode: ["values", "custom", "updates"],
      });
      await (await worker.call(caller, "GET", `/runs/${run.run_id}/join`)).text();
      const answer = await worker.call(caller, "GET", `/runs/${run.run_id}/stream?${query}`);
      const names = named(await collect(sentEvents(answer)));
      expect(names).to.deep.equal(
        query.includes("updates") ? ["metadata", "custom", "updates"] : ["metadata", "custom"],
      );
    });
  }

  it("joined for several modes by the SDK has them", async () => {
    const client = await worker.client(newCaller("events"));
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "events", {
      input: { count: 1 },
      streamMode: ["values", "custom", "updates"],
    });
    const parts = await collect(
      client.runs.joinStream(thread_id, run.run_id, { streamMode: ["custom", "updates"] }),
    );
    expect(parts.map(({ event }) => event)).to.deep.equal(["metadata", "custom", "updates"]);
  });

  it("of a run that somebody waits for tells how it ends", async () => {
    const caller = newCaller("steps");
    const name = randomUUID();
    const waiting = await worker.call(caller, "POST", "/runs/wait", {
      assistant_id: "steps",
      input: { journal: shared.journal.path(name), gate: shared.journal.path(`${name}-gate`) },
    });
    const place = waiting.headers.get("content-location");
    const joined = collect(sentEvents(await worker.call(caller, "GET", `${place}/stream`)));
    await shared.journal.open(`${name}-gate`);
    const values = JSON.parse(await waiting.text());
    const events = await joined;
    expect(named(events)).to.deep.equal(["metadata", "values"]);
    expect(events.at(-1)?.data).to.deep.equal(values);
    const resumed = await worker.call(caller, "GET", `${place}/stream`, undefined, {
      headers: { "last-event-id": "0" },
    });
    expect(await collect(sentEvents(resumed))).to.deep.equal(events.slice(1));
  });

  it("breathes while the run takes its time", async () => {
    const caller = newCaller("steps");
    const name = randomUUID();
    const answer = await worker.call(caller, "POST", "/runs/stream", {
      assistant_id: "steps",
      input: { journal: shared.journal.path(name), gate: shared.journal.path(`${name}-gate`) },
      stream_mode: "updates",
    });
    let text = "";
    for await (const part of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part;
      if (text.includes("\n: heartbeat\n\n")) await shared.journal.open(`${name}-gate`);
    }
    expect(text).to.include("\n: heartbeat\n\n");
    expect(text).to.include("event: updates\n");
  });

  it("reaches a slow reader whole, and does not pile up in the worker", async () => {
    const caller = newCaller("events");
    const mebibytes = 96;
    // A small heap: what grows is what is kept, not what nobody has collected yet.
    const small = await startWorker(await shared.postgres.createDatabase(), {
      NODE_OPTIONS: "--max-old-space-size=128",
    });
    try {
      const before = await small.memoryMiB();
      const answer = await small.call(caller, "POST", "/runs/stream", {
        assistant_id: "events",
        input: { count: mebibytes * 16, characters: 64 * 1024 },
        stream_mode: "custom",
      });
      const place = answer.headers.get("content-location");
      // Nothing is read until the run has ended.
      await (await small.call(caller, "GET", `${place}/join`)).text();
      const grown = (await small.memoryMiB()) - before;
      let expected = 0;
      for await (const { event, data } of sentEvents(answer)) {
        if (event !== "custom") continue;
        expected += 1;
        expect(data.n).to.equal(expected);
      }
      expect(expected).to.equal(mebibytes * 16);
      expect(grown, "MiB").to.be.below(mebibytes);
    } finally {
      await small.stop();
    }
  });
});
