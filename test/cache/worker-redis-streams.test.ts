import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import type { RunEvent } from "../../runtime/worker/event-bus.ts";
import type { RecordedRun } from "../../runtime/worker/event-store.ts";
import { RedisConnection } from "../../runtime/worker/redis-connection.ts";
import { RedisStreams } from "../../runtime/worker/redis-streams.ts";
import { eventually } from "../support/eventually.ts";
import { REDIS_PREFIX, TestRedis } from "../support/redis.ts";

const SECOND_ATTEMPT = 1_000_000_000;
const KIBI = 1_024;

function newRun(): RecordedRun {
  const runId = randomUUID();
  return { tenant: "acme", graphId: "events", runId, claimToken: randomUUID() };
}

async function allOf(streams: RedisStreams, run: RecordedRun): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  for await (const event of streams.read(run, -1, Number.MAX_SAFE_INTEGER)) events.push(event);
  return events;
}

const told = (id: number, data = "{}"): RunEvent => ({ id, event: "custom", data });

describe("The streams of runs in Redis", () => {
  let redis: TestRedis;
  let opened: RedisStreams[];
  let log: string;

  before(async () => {
    redis = await TestRedis.create();
  });

  after(async () => {
    await redis?.stop();
  });

  beforeEach(() => {
    opened = [];
    log = "";
  });

  afterEach(async () => {
    await Promise.all(opened.map((streams) => streams.close()));
  });

  /** As a worker has them. */
  function open(url = redis.url): RedisStreams {
    const write = (line: string) => {
      log += line;
    };
    const logger = pino({ level: "info" }, { write });
    const connection = new RedisConnection(url, "events", logger);
    const streams = new RedisStreams(connection, REDIS_PREFIX, logger);
    opened.push(streams);
    connection.connect();
    return streams;
  }

  async function add(streams: RedisStreams, run: RecordedRun, ...events: RunEvent[]) {
    for (const event of events) await streams.append(run, event, () => {});
    await streams.flush();
  }

  it("take nothing of an attempt that another one has followed", async () => {
    const [old, young, run] = [open(), open(), newRun()];
    await add(old, run, told(0), told(1));
    await add(young, run, told(SECOND_ATTEMPT));
    await add(old, run, told(2), told(3));
    await add(young, run, told(SECOND_ATTEMPT + 1));
    const ids = (await allOf(young, run)).map(({ id }) => id);
    expect(ids).to.deep.equal([0, 1, SECOND_ATTEMPT, SECOND_ATTEMPT + 1]);
    expect(await allOf(old, run)).to.deep.equal(await allOf(young, run));
  });

  it("keep tenants, graphs and runs apart, whatever they are called", async () => {
    const [streams, run] = [open(), newRun()];
    const odd = { ...run, tenant: "acme/events", graphId: "*" };
    await add(streams, run, told(0, '"mine"'));
    await add(streams, odd, told(0, '"odd \\u0000 ✓"'));
    expect((await allOf(streams, run)).map(({ data }) => data)).to.deep.equal(['"mine"']);
    expect((await allOf(streams, odd)).map(({ data }) => data)).to.deep.equal(['"odd \\u0000 ✓"']);
  });

  it("give any part of themselves", async () => {
    const [streams, run] = [open(), newRun()];
    await add(streams, run, ...Array.from({ length: 1_000 }, (_, id) => told(id)));
    const ids: number[] = [];
    for await (const { id } of streams.read(run, 299, 800)) ids.push(id);
    expect(ids).to.deep.equal(Array.from({ length: 500 }, (_, index) => 300 + index));
  });

  it("keep a bounded number of events of one run: the latest", async () => {
    const [streams, run] = [open(), newRun()];
    const count = 60_000;
    for (let id = 0; id < count; id += 1) await streams.append(run, told(id), () => {});
    await streams.flush();
    const events = await allOf(streams, run);
    expect(events.length).to.be.within(50_000, 51_000);
    expect(events.at(-1)?.id).to.equal(count - 1);
  });

  it("hold back a bounded part while Redis is away, and say loudly what was lost", async () => {
    const [streams, run] = [open(), newRun()];
    await add(streams, run, told(0));
    await redis.kill();
    // 32 MiB, of which 4 are kept.
    const data = JSON.stringify("x".repeat(64 * KIBI));
    const count = 512;
    let announced = 0;
    for (let id = 1; id <= count; id += 1) {
      await streams.append(run, told(id, data), () => {
        announced += 1;
      });
    }
    await streams.flush();
    expect(log.match(/events are being lost/g)).to.have.length(1);

    await redis.start();
    await eventually("what was held back is written", () => announced > 0);
    await streams.flush();
    const events = await allOf(streams, run);
    expect(events.length).to.be.within(60, 64);
    expect(events.at(-1)?.id).to.equal(count);
    expect(log.match(/events were lost/g)).to.have.length(1);
    expect(log).to.include(`"events":${count - events.length}`);
  });

  it("wait no longer for a Redis that stays away", async () => {
    const [streams, run] = [open(), newRun()];
    await add(streams, run, told(0));
    await redis.kill();
    try {
      await add(streams, run, told(1));
      // To wait each time would take longer than a test may.
      for (let id = 2; id < 100; id += 1) await add(streams, run, told(id));
      expect((await allOf(streams, run)).map(({ id }) => id)).to.include.members([1, 99]);
    } finally {
      await redis.start();
    }
  });

  it("write what they hold back when a server that may only be read takes writes again", async () => {
    const [streams, run] = [open(), newRun()];
    await add(streams, run, told(0));
    await redis.admin.replicaof("127.0.0.1", 1);
    await add(streams, run, told(1), told(2));
    expect((await allOf(streams, run)).map(({ id }) => id)).to.deep.equal([0, 1, 2]);
    await redis.admin.replicaof("NO", "ONE");
    const elsewhere = open();
    await eventually("they are written", async () => (await allOf(elsewhere, run)).length === 3);
    await add(streams, run, told(3));
    expect((await allOf(elsewhere, run)).map(({ id }) => id)).to.deep.equal([0, 1, 2, 3]);
  });

  it("say once why a user may not write, and never with a password", async () => {
    await redis.admin.acl("SETUSER", "nobody", "reset", "on", ">secret-of-nobody", "-@all");
    const url = new URL(redis.url);
    url.username = "nobody";
    url.password = "secret-of-nobody";
    const [streams, run] = [open(url.href), newRun()];
    for (let id = 0; id < 10; id += 1) await add(streams, run, told(id));
    expect(log.match(/events are being lost/g)).to.have.length(1);
    expect(log).to.include("NOPERM");

    url.password = "secret-but-wrong";
    const refused = open(url.href);
    await add(refused, run, told(0));
    expect(log).to.include("WRONGPASS");
    expect(log).to.not.match(/secret-of-nobody|secret-but-wrong/);
  });
});
