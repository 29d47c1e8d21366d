import { expect } from "chai";
import { Redis } from "ioredis";
import { hashToken } from "../../runtime/common/identity.ts";
import { createRedisUsers, type RedisUsers } from "../../runtime/provisioner/redis-user.ts";
import { startCache, type TestCache } from "../support/cache.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";

const OWN = "aegra:agent-a";
const OTHER = "aegra:agent-b";

describe("An agent's Redis user", () => {
  let cache: TestCache;
  let admin: Redis;
  let users: RedisUsers;
  let connections: Redis[];

  before(async () => {
    cache = await startCache();
  });
  after(() => cache.stop());
  beforeEach(async () => {
    admin = new Redis(cache.adminUrl);
    connections = [admin];
    users = createRedisUsers(admin);
    await admin.flushall();
    await users.ensure("agent_a", OWN, [hashToken("secret-a")]);
    await users.ensure("agent_b", OTHER, [hashToken("secret-b")]);
  });
  afterEach(async () => {
    for (const connection of connections) connection.disconnect();
  });

  /** @returns once the password was taken. */
  async function logIn(username: string, password: string): Promise<Redis> {
    const url = new URL(cache.adminUrl);
    url.username = username;
    url.password = password;
    const redis = new Redis(url.href, {
      retryStrategy: () => null,
      enableReadyCheck: false,
      lazyConnect: true,
    });
    let problem: unknown;
    redis.on("error", (error) => {
      problem = error;
    });
    connections.push(redis);
    try {
      await redis.connect();
      await redis.ping();
    } catch (error) {
      // The first says why, what follows only that the connection is closed.
      throw problem ?? error;
    }
    return redis;
  }

  async function refusal(redis: Redis, command: string, ...parts: string[]): Promise<string> {
    return (await failureOf(redis.call(command, ...parts))).message;
  }

  it("does what a job queue, streams and pub/sub need under its prefix", async () => {
    const redis = await logIn("agent_a", "secret-a");
    const listener = await logIn("agent_a", "secret-a");
    const got: unknown[] = [];
    listener.on("message", (...message) => got.push(message));
    await listener.subscribe(`${OWN}:signals`);
    await listener.psubscribe(`${OWN}:*`);
    await redis.publish(`${OWN}:signals`, "wake up");
    await eventually("the message", () => got.length === 1);
    const stream = `${OWN}:run:1`;
    const results = await redis
      .pipeline()
      .xadd(stream, "MAXLEN", "~", "1000", "1-0", "event", "{}")
      .expire(stream, 3600)
      .xrange(stream, "-", "+")
      .xlen(stream)
      .exists(stream)
      .ttl(stream)
      .exec();
    expect(results?.map(([error]) => error)).to.deep.equal([null, null, null, null, null, null]);
    expect(await redis.xread("COUNT", 10, "STREAMS", stream, "0")).to.have.length(1);
    await redis.xgroup("CREATE", stream, "workers", "0");
    await redis.xreadgroup("GROUP", "workers", "one", "STREAMS", stream, ">");
    await redis.xack(stream, "workers", "1-0");
    await redis.multi().lpush(`${OWN}:jobs`, "1").zadd(`${OWN}:due`, 1, "1").exec();
    expect(await redis.brpop(`${OWN}:jobs`, 1)).to.deep.equal([`${OWN}:jobs`, "1"]);
    await redis.set(`${OWN}:lock`, "me", "PX", 1000, "NX");
    await redis.hset(`${OWN}:hash`, "field", "value");
    await redis.client("SETNAME", "agent-a");
    expect(await redis.unlink(stream, `${OWN}:due`)).to.equal(2);
  });

  it("touches no key and no channel of another agent", async () => {
    await admin.set(`${OTHER}:secret`, "hidden");
    const redis = await logIn("agent_a", "secret-a");
    for (const command of [
      ["GET", `${OTHER}:secret`],
      ["SET", `${OTHER}:secret`, "x"],
      ["DEL", `${OTHER}:secret`],
      ["DUMP", `${OTHER}:secret`],
      ["TYPE", `${OTHER}:secret`],
      ["COPY", `${OTHER}:secret`, `${OWN}:copy`],
      ["RENAME", `${OWN}:x`, `${OTHER}:x`],
      ["XREAD", "STREAMS", `${OTHER}:run`, "0"],
      ["GET", "aegra:agent-a-but-longer"],
      ["GET", "aegra:agent-"],
      ["PUBLISH", `${OTHER}:signals`, "x"],
      ["SUBSCRIBE", `${OTHER}:signals`],
      ["PSUBSCRIBE", "*"],
      ["PSUBSCRIBE", "aegra:*"],
      ["SUBSCRIBE", "__keyevent@0__:set"],
    ]) {
      const [name = "", ...parts] = command;
      expect(await refusal(redis, name, ...parts), command.join(" ")).to.match(/^NOPERM/);
    }
    expect(await admin.get(`${OTHER}:secret`)).to.equal("hidden");
  });

  it("learns nothing of others and harms nobody", async () => {
    const redis = await logIn("agent_a", "secret-a");
    for (const command of [
      ["KEYS", "*"],
      ["SCAN", "0"],
      ["RANDOMKEY"],
      ["DBSIZE"],
      ["PUBSUB", "CHANNELS"],
      ["INFO"],
      ["CLIENT", "LIST"],
      ["CLIENT", "TRACKING", "ON", "BCAST"],
      ["CLIENT", "KILL", "TYPE", "normal"],
      ["CLIENT", "PAUSE", "1000"],
      ["MONITOR"],
      ["CONFIG", "GET", "*"],
      ["ACL", "LIST"],
      ["ACL", "SETUSER", "agent_a", "+@all"],
      ["FLUSHALL"],
      ["FLUSHDB"],
      ["SWAPDB", "0", "1"],
      ["EVAL", "return 1", "0"],
      ["SCRIPT", "FLUSH"],
      ["FUNCTION", "FLUSH"],
      ["SHUTDOWN", "NOSAVE"],
      ["SAVE"],
      ["REPLICAOF", "NO", "ONE"],
      ["MIGRATE", "127.0.0.1", "1", "x", "0", "1"],
      ["SORT", `${OWN}:list`, "BY", "*"],
    ]) {
      const [name = "", ...parts] = command;
      expect(await refusal(redis, name, ...parts), command.join(" ")).to.match(/^NOPERM/);
    }
  });

  it("has two passwords while credentials rotate, and one after", async () => {
    const before = await logIn("agent_a", "secret-a");
    await users.ensure("agent_a", OWN, [hashToken("secret-a"), hashToken("newer")]);
    await logIn("agent_a", "newer");
    await logIn("agent_a", "secret-a");
    await users.ensure("agent_a", OWN, [hashToken("newer")]);
    expect((await failureOf(logIn("agent_a", "secret-a"))).message).to.match(/^WRONGPASS/);
    expect(await before.ping(), "connections that are there live on").to.equal("PONG");
  });

  it("keeps its subscriptions when it is set up once more", async () => {
    const listener = await logIn("agent_a", "secret-a");
    const got: unknown[] = [];
    listener.on("message", (...message) => got.push(message));
    await listener.subscribe(`${OWN}:signals`);
    await users.ensure("agent_a", OWN, [hashToken("secret-a")]);
    await admin.publish(`${OWN}:signals`, "still here");
    await eventually("the message", () => got.length === 1);
  });

  it("is thrown out when it is removed", async () => {
    const redis = await logIn("agent_a", "secret-a");
    const closed = new Promise((resolve) => redis.once("close", resolve));
    await users.remove("agent_a");
    await closed;
    expect((await failureOf(logIn("agent_a", "secret-a"))).message).to.match(/^WRONGPASS/);
    await users.remove("agent_a");
  });

  it("gets its prefix without the keys of who had it before", async () => {
    const keys = Array.from({ length: 1_200 }, (_, index) => `${OWN}:${index}`);
    await admin.mset(...keys.flatMap((key) => [key, "old"]), `${OTHER}:kept`, "yes");
    await users.clear(OWN);
    expect(await admin.keys("*")).to.deep.equal([`${OTHER}:kept`]);
  });
});
