import { expect } from "chai";
import { hashToken } from "../../runtime/common/identity.ts";
import { createRedisUsers } from "../../runtime/provisioner/redis-user.ts";
import { eventually } from "../support/eventually.ts";
import { REDIS_PREFIX } from "../support/redis.ts";
import { Listener, type Replicas, startEvents, startReplicas, upTo } from "../support/replicas.ts";
import { jsonOf, startWorker } from "../support/worker.ts";
import { expectRisingIds } from "../support/worker-events.ts";

describe("two workers of an agent over Redis", () => {
  let replicas: Replicas;

  before(async () => {
    replicas = await startReplicas();
  });

  after(async () => {
    await replicas?.stop();
  });

  it("tell of a run event for event the same, whoever executes it", async () => {
    const { a, b, journal } = replicas;
    const run = await startEvents(a, { count: 200, gate: journal.path("same") });
    const [here, there] = [await Listener.open(a, run), await Listener.open(b, run)];
    await Promise.all([here.hears(200), there.hears(200)]);
    expect(here.numbers).to.deep.equal(upTo(199));

    await journal.open("same");
    await Promise.all([here.ended, there.ended]);
    expect(here.numbers).to.deep.equal(upTo(200));
    expect(there.events).to.deep.equal(here.events);
    expectRisingIds(there.events);
  });

  it("let a client that lost its connection go on at the other one after its Last-Event-ID", async () => {
    const { a, b, journal } = replicas;
    const run = await startEvents(a, { count: 100, gate: journal.path("return") });
    const before = await Listener.open(a, run);
    await before.hears(100);
    const last = before.events[41];
    const back = await Listener.open(b, run, last?.id);
    await back.hears(58);
    await journal.open("return");
    await Promise.all([before.ended, back.ended]);
    expect(back.events).to.deep.equal(before.events.slice(42));

    const late = await Listener.open(b, run, last?.id);
    await late.ended;
    expect(late.events).to.deep.equal(before.events.slice(42));
    const done = await Listener.open(b, run, before.events.at(-1)?.id);
    await done.ended;
    expect(done.events).to.deep.equal([]);
  });

  it("replay a run of many pages", async () => {
    const { a, b } = replicas;
    const run = await startEvents(a, { count: 3_000 });
    await jsonOf(b.call(run.caller, "GET", `/runs/${run.runId}/join`));
    const replay = await Listener.open(b, run);
    await replay.ended;
    expect(replay.numbers).to.deep.equal(upTo(3_000));
    expectRisingIds(replay.events);
  });

  it("cancel a run that the other one executes", async () => {
    const { a, b, journal } = replicas;
    const caller = { graphId: "events", tenant: "canceller" };
    const client = await b.client(caller);
    const { thread_id } = await client.threads.create();
    const started = await a.call(caller, "POST", `/threads/${thread_id}/runs`, {
      assistant_id: "events",
      input: { count: 2, gate: journal.path("never") },
    });
    const { run_id } = await jsonOf(started);
    await client.runs.cancel(thread_id, run_id, true);
    expect((await client.runs.get(thread_id, run_id)).status).to.equal("interrupted");
  });

  it("join a run that the other one executes", async () => {
    const { a, b, journal } = replicas;
    const run = await startEvents(a, { count: 5, gate: journal.path("join") });
    const joined = jsonOf(b.call(run.caller, "GET", `/runs/${run.runId}/join`));
    await journal.open("join");
    expect(await joined).to.have.property("count", 5);
  });

  it("use keys under the agent's prefix only, which go within an hour", async () => {
    const { a, b, redis } = replicas;
    const run = await startEvents(a, { count: 5 });
    await (await Listener.open(b, run)).ended;
    const { admin } = redis;
    const keys = await admin.keys("*");
    const key = keys.find((name) => name.includes(run.runId));
    expect(key).to.equal(`aegra:mine:run:${run.caller.tenant}/events/${run.runId}`);
    for (const name of keys) {
      expect(name).to.match(/^aegra:mine:/);
      expect(await admin.ttl(name)).to.be.within(1, 3_600);
    }
  });

  it("need no right beyond those that are documented", async () => {
    const { a, b, redis } = replicas;
    expect(await redis.admin.acl("LOG")).to.deep.equal([]);
    expect(a.log + b.log).to.not.match(/"level":50/);
  });

  it("do with the user that the provisioner makes", async () => {
    const { a, postgres, redis } = replicas;
    await createRedisUsers(redis.admin).ensure("made", REDIS_PREFIX, [hashToken("of-made")]);
    const url = new URL(redis.url);
    url.username = "made";
    url.password = "of-made";
    const c = await startWorker(postgres, { REDIS_URL: url.href, REDIS_PREFIX });
    try {
      const heard = await Listener.open(a, await startEvents(c, { count: 20 }));
      await heard.ended;
      expect(heard.numbers).to.deep.equal(upTo(20));
      expect(await redis.admin.acl("LOG")).to.deep.equal([]);
      expect(c.log).to.not.match(/"level":50/);
    } finally {
      await c.stop();
    }
  });

  it("hear nothing of another agent", async () => {
    const { a, b, redis } = replicas;
    const channels = (await redis.admin.pubsub("CHANNELS", "*")) as string[];
    expect(channels).to.deep.equal(["aegra:mine:signals"]);
    await eventually("the signals of two workers", async () => {
      const [, count] = await redis.admin.pubsub("NUMSUB", "aegra:mine:signals");
      return count === 2;
    });
    expect(a.log + b.log).to.not.include("signal of unknown shape");
  });
});

describe("a worker that lost its lease", () => {
  let replicas: Replicas;

  before(async () => {
    replicas = await startReplicas({ LEASE_MS: "1000", HEARTBEAT_MS: "300", REAPER_MS: "300" });
  });

  after(async () => {
    await replicas?.stop();
  });

  it("adds nothing to what its successor tells", async () => {
    const { a, b, journal } = replicas;
    const run = await startEvents(a, { count: 50, gate: journal.path("stale") });
    const client = await Listener.open(b, run);
    await client.hears(50);

    a.pause();
    await eventually("the other worker's attempt", () => {
      return client.events.filter(({ event }) => event === "metadata").length === 2;
    });
    await client.hears(100);
    // It wakes up in the middle of the run and goes on telling, until it learns of its loss.
    await journal.open("stale");
    a.resume();
    await client.ended;

    expectRisingIds(client.events);
    expect(client.numbers).to.deep.equal([...upTo(49), ...upTo(50)]);

    const told = `"run_id":"${run.runId}"`;
    await eventually("the end of the lost attempt", () => a.log.includes(told));
    for (const worker of [a, b]) {
      const replay = await Listener.open(worker, run);
      await replay.ended;
      expect(replay.events).to.deep.equal(client.events);
    }
  });
});
