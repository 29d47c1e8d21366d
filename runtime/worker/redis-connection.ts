import { Redis } from "ioredis";
import type { Logger } from "../common/logging.ts";

/** How long anything waits for a Redis that is away, counted from its going. */
const PATIENCE_MS = 2_000;
const RECONNECT_MS = 200;
/** A server that is silent for so long, though it was asked, is as good as away. */
const SILENCE_MS = 2_000;
const CLOSED = "connection closed";

/**
 * A connection to Redis that may be lost and comes back by itself. Nothing is queued while it is
 * away: commands fail at once, and those under way as soon as it is lost.
 */
export class RedisConnection {
  readonly client: Redis;
  readonly #name: string;
  readonly #logger: Logger;
  readonly #waiting = new Set<() => void>();
  readonly #listeners: (() => void)[] = [];
  /** What has been logged of the present outage. */
  readonly #reported = new Set<string>();
  #awaySince = Date.now();
  #cause = CLOSED;
  #isStanding = false;
  #isClosing = false;

  /** @param name For the log. */
  constructor(url: string, name: string, logger: Logger) {
    this.#name = name;
    this.#logger = logger;
    this.client = new Redis(url, {
      lazyConnect: true,
      // These would send INFO and CLIENT, which an agent's user need not be allowed.
      enableReadyCheck: false,
      disableClientInfo: true,
      autoResubscribe: false,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      connectTimeout: SILENCE_MS,
      socketTimeout: SILENCE_MS,
      keepAlive: 10_000,
      retryStrategy: () => RECONNECT_MS,
      // After a failover this connection may lead to a replica: only a new one finds the primary.
      reconnectOnError: (error) => error.message.startsWith("READONLY"),
    });
    this.client.on("error", (error: Error) => {
      this.#cause = error.message;
    });
    this.client.on("close", () => this.#lost());
    this.client.on("ready", () => this.#found());
  }

  get isReady(): boolean {
    return this.client.status === "ready";
  }

  /** Called whenever the connection stands, the first time too. */
  onReady(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Starts to connect, and goes on until it succeeds. */
  connect(): void {
    this.#awaySince = Date.now();
    // Why it fails comes as events, for the first try as for all later ones.
    this.client.connect().catch(() => {});
  }

  /** Waits a moment if Redis has just gone; false if it is away. */
  async whenReady(): Promise<boolean> {
    // A loss is known a moment before it is told.
    const awaySince = this.#isStanding ? Date.now() : this.#awaySince;
    const leftMs = awaySince + PATIENCE_MS - Date.now();
    if (this.isReady || this.#isClosing || leftMs <= 0) return this.isReady;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, leftMs);
      this.#waiting.add(done);
    });
    return this.isReady;
  }

  close(): void {
    this.#isClosing = true;
    this.client.disconnect();
    this.#wake();
  }

  #lost(): void {
    if (this.#isClosing) return;
    if (this.#isStanding) this.#awaySince = Date.now();
    this.#isStanding = false;
    // An error of ioredis holds the command, which may be AUTH: only its message may be logged.
    const cause = this.#cause;
    if (this.#reported.has(cause)) return;
    this.#reported.add(cause);
    this.#logger.error(
      { redis: this.#name, error: cause },
      "Redis is away: runs go on, listeners on other replicas learn less",
    );
  }

  #found(): void {
    this.#isStanding = true;
    if (this.#reported.size > 0) this.#logger.warn({ redis: this.#name }, "Redis is back");
    this.#reported.clear();
    this.#cause = CLOSED;
    for (const listener of this.#listeners) listener();
    this.#wake();
  }

  #wake(): void {
    for (const done of [...this.#waiting]) done();
  }
}

/**
 * True where a command failed because of the state that Redis is in, not because of what it said:
 * it may be tried again.
 */
export function isPassing(error: Error): boolean {
  if (error.name !== "ReplyError") return true;
  return /^(LOADING|READONLY|MASTERDOWN|NOREPLICAS|BUSY|TRYAGAIN)\b/.test(error.message);
}
