import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { REDIS_PREFIX } from "../support/redis.ts";
import { Listener, type Replicas, startEvents, startReplicas, upTo } from "../support/replicas.ts";
import { jsonOf, startWorker, type TestWorker } from "../support/worker.ts";
import { expectRisingIds, type SentEvent } from "../support/worker-events.ts";

/** Makes calls one after the other until told to stop; resolves with how many there were. */
function keepRunning(worker: TestWorker, until: () => boolean): Promise<number> {
  const caller = { graphId: "counter", tenant: "steady" };
  const body = { assistant_id: "counter", input: { count: 1 } };
  return (async () => {
    let runs = 0;
    for (; !until(); runs += 1) {
      const answer = await jsonOf(worker.call(caller, "POST", "/runs/wait", body));
      expect(answer).to.deep.equal({ count: 2 });
    }
    return runs;
  })();
}

/** Nothing twice, nothing out of order. */
function expectInOrder(events: readonly SentEvent[], numbers: readonly number[]): void {
  expectRisingIds(events);
  for (const [index, n] of numbers.entries()) expect(n).to.be.greaterThan(numbers[index - 1] ?? 0);
}

describe("while Redis is away", () => {
  let replicas: Replicas;

  beforeEach(async () => {
    replicas = await startReplicas();
  });

  afterEach(async () => {
    await replicas?.stop();
  });

  it("and comes back empty in the middle of runs, none is lost and every stream ends", async () => {
    const { a, b, redis, journal } = replicas;
    const count = 20_000;
    const run = await startEvents(a, { count, gate: journal.path("empty") });
    const [here, there] = [await Listener.open(a, run), await Listener.open(b, run)];
    let isOver = false;
    const others = [a, b].map((worker) => keepRunning(worker, () => isOver));
    await there.hears(500);
    await redis.kill();
    await eventually("the outage is noticed", () => a.log.includes("Redis is away"));
    await redis.start();

    const after = await startEvents(a, { count: 50, gate: journal.path("empty") });
    const follower = await Listener.open(b, after);
    await follower.hears(50);
    isOver = true;
    expect((await Promise.all(others)).every((runs) => runs > 0)).to.equal(true);
    await journal.open("empty");
    await Promise.all([here.ended, there.ended, follower.ended]);

    for (const { events, numbers } of [here, there]) {
      expectInOrder(events, numbers);
      expect(numbers.at(-1)).to.equal(count);
    }
    expect(follower.numbers).to.deep.equal(upTo(50));
    expect(await jsonOf(b.call(run.caller, "GET", `/runs/${run.runId}/join`))).to.include({
      count,
    });
  });

  it("and is back at once, nobody misses anything", async () => {
    const { a, b, redis, journal } = replicas;
    const run = await startEvents(a, { count: 100, gate: journal.path("blip") });
    const there = await Listener.open(b, run);
    await there.hears(100);
    await redis.kill();
    await journal.open("blip");
    await redis.start();
    await there.ended;
    expect(there.numbers).to.deep.equal(upTo(100));
    expectRisingIds(there.events);
  });

  it("a stream of the same worker is whole, and one of another worker ends", async () => {
    const { a, b, redis, journal } = replicas;
    const run = await startEvents(a, { count: 300, gate: journal.path("away") });
    const [here, there] = [await Listener.open(a, run), await Listener.open(b, run)];
    await Promise.all([here.hears(300), there.hears(300)]);
    await redis.kill();
    const unseen = await startEvents(a, { count: 3 });
    await journal.open("away");
    await Promise.all([here.ended, there.ended]);
    expect(here.numbers).to.deep.equal(upTo(300));
    expect(there.numbers).to.deep.equal(upTo(299));

    // Nothing of it can be read: its listener learns how it ended.
    const late = await Listener.open(b, unseen);
    await late.ended;
    expect(late.events.map(({ event }) => event)).to.deep.equal(["metadata", "values"]);
    expect(late.events[1]?.data).to.include({ count: 3 });
  });

  it("a failed run's stream does not end as if all were well", async () => {
    const { a, b, redis, journal } = replicas;
    const run = await startEvents(a, { count: 20, gate: journal.path("fail"), failure: "too bad" });
    const there = await Listener.open(b, run);
    await there.hears(20);
    await redis.kill();
    await journal.open("fail");
    await there.ended;
    expect(there.events.at(-1)).to.deep.include({ event: "error" });
    expect(there.events.at(-1)?.data).to.include({ message: "too bad" });
    expectRisingIds(there.events);

    const back = await Listener.open(b, run, there.events.at(-2)?.id);
    await back.ended;
    expect(back.events).to.deep.equal(there.events.slice(-1));
  });

  it("workers say so once, and once that it is back", async () => {
    const { a, b, redis } = replicas;
    const lines = (text: string) => a.log.split("\n").filter((line) => line.includes(text)).length;
    await redis.kill();
    for (const count of [1, 2, 3])
      await (await Listener.open(a, await startEvents(a, { count }))).ended;
    await redis.start();
    await eventually("both connections of both workers", () => {
      return [a, b].every(({ log }) => log.match(/Redis is back/g)?.length === 2);
    });
    expect(lines("connection closed")).to.equal(2);
    expect(lines("ECONNREFUSED")).to.be.at.most(2);
    expect(a.log).to.not.include("secret-of-mine");
  });

  it("a worker starts all the same, its own streams are whole, and it uses Redis when it comes", async () => {
    const { postgres, redis, a, journal } = replicas;
    await redis.kill();
    const late = await startWorker(postgres, {
      REDIS_URL: redis.url,
      REDIS_PREFIX,
    });
    try {
      const count = 20_000;
      const run = await startEvents(late, { count, gate: journal.path("alone") });
      const alone = await Listener.open(late, run);
      await alone.hears(count);
      await journal.open("alone");
      await alone.ended;
      expect(alone.numbers).to.deep.equal(upTo(count));
      expect((await late.call(undefined, "GET", "/ready")).status).to.equal(200);

      await redis.start();
      await eventually("both are back", () =>
        [a, late].every(({ log }) => log.match(/Redis is back/g)?.length === 2),
      );
      const elsewhere = await Listener.open(a, await startEvents(late, { count: 40 }));
      await elsewhere.ended;
      expect(elsewhere.numbers).to.deep.equal(upTo(40));
    } finally {
      await late.kill();
    }
  });
});

describe("a Redis that forgets or hangs", () => {
  let replicas: Replicas;

  beforeEach(async () => {
    replicas = await startReplicas();
  });

  afterEach(async () => {
    await replicas?.stop();
  });

  it("costs those who come late what it forgot, but not the end", async () => {
    const { a, b, redis, journal } = replicas;
    const run = await startEvents(a, { count: 60, gate: journal.path("flush") });
    const early = await Listener.open(b, run);
    await early.hears(60);
    await redis.admin.flushall();
    const late = await Listener.open(b, run);
    await journal.open("flush");
    await Promise.all([early.ended, late.ended]);
    expect(early.numbers).to.deep.equal(upTo(60));
    expect(late.numbers).to.deep.equal([60]);
  });

  it("holds up no run, and is used again when it answers", async () => {
    const { a, b, redis } = replicas;
    redis.pause();
    const hung = await startEvents(a, { count: 100 });
    const here = await Listener.open(a, hung);
    await here.ended;
    expect(here.numbers).to.deep.equal(upTo(100));
    expect(await jsonOf(b.call(hung.caller, "GET", `/runs/${hung.runId}/join`))).to.include({
      count: 100,
    });

    redis.resume();
    await eventually("what was kept meanwhile is written", async () => {
      const replay = await Listener.open(b, hung);
      await replay.ended;
      return replay.numbers.length === 100;
    });
  });
});
