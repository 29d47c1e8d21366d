import { Redis } from "ioredis";
import { startCache, type TestCache } from "./cache.ts";

export const REDIS_PREFIX = "aegra:mine";
const USER = "mine";
const PASSWORD = "secret-of-mine";
/** What the event bus says that it needs, and not a command more. */
const RIGHTS = `reset on >${PASSWORD} ~${REDIS_PREFIX}:* &${REDIS_PREFIX}:* -@all +xadd +xrange +expire +publish +subscribe`;

/** A Valkey or Redis of one test file, in which one agent has a user of its own. */
export class TestRedis {
  readonly #cache: TestCache;
  #admin: Redis;
  /** As the agent's own user. */
  readonly url: string;

  private constructor(cache: TestCache) {
    this.#cache = cache;
    this.#admin = connect(cache);
    const url = new URL(cache.adminUrl);
    url.username = USER;
    url.password = PASSWORD;
    this.url = url.href;
  }

  /** @throws where the machine has neither Valkey nor Redis. */
  static async create(): Promise<TestRedis> {
    const redis = new TestRedis(await startCache());
    await redis.#addUser();
    return redis;
  }

  /** As somebody who may do everything. */
  get admin(): Redis {
    return this.#admin;
  }

  /** Starts it, empty, on the same port as before. The agent's user comes a moment later. */
  async start(): Promise<void> {
    await this.#cache.start();
    this.#admin = connect(this.#cache);
    await this.#addUser();
  }

  /** The machine is gone, and all that was in memory with it. */
  async kill(): Promise<void> {
    this.#admin.disconnect();
    await this.#cache.kill();
  }

  /** It hangs: keeps its connections and answers nothing. */
  pause(): void {
    this.#cache.pause();
  }

  resume(): void {
    this.#cache.resume();
  }

  async stop(): Promise<void> {
    this.#admin.disconnect();
    await this.#cache.stop();
  }

  async #addUser(): Promise<void> {
    await this.#admin.acl("SETUSER", USER, ...RIGHTS.split(" "));
  }
}

function connect(cache: TestCache): Redis {
  return new Redis(cache.adminUrl);
}
