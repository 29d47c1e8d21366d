import { Redis } from "ioredis";
import type { Logger } from "../common/logging.ts";
import { describe } from "./failure.ts";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
const TIMEOUT_MS = 5_000;

/** The provisioner's connection to the cache. */
export interface RedisConnection {
  redis: Redis;
  /** Calls back each time the cache answers again, until the signal. */
  onBack(listener: () => void, signal: AbortSignal): void;
  close(): void;
}

/**
 * Connects for as long as it takes, again and again. A command while the cache is away fails at
 * once: whoever sent it tries again later anyway.
 */
export function connectRedis(url: string, logger: Logger): RedisConnection {
  const redis = new Redis(url, {
    connectionName: "platform-provisioner",
    connectTimeout: TIMEOUT_MS,
    commandTimeout: TIMEOUT_MS,
    maxRetriesPerRequest: 1,
    // INFO, which the check needs, is not among the rights of the provisioner's user.
    enableReadyCheck: false,
    retryStrategy: (tries) =>
      Math.min(FIRST_PAUSE_MS * 2 ** Math.min(tries, 10), LONGEST_PAUSE_MS) *
      (0.5 + Math.random() / 2),
  });
  let isAway = false;
  redis.on("error", (error: Error) => {
    if (!isAway) logger.warn({ error: describe(error) }, "the cache does not answer");
    isAway = true;
  });
  redis.on("close", () => {
    isAway = true;
  });
  redis.on("ready", () => {
    if (isAway) logger.info("the cache answers again");
    isAway = false;
  });
  return {
    redis,
    onBack(listener, signal) {
      redis.on("ready", listener);
      signal.addEventListener("abort", () => redis.off("ready", listener), { once: true });
    },
    close: () => redis.disconnect(),
  };
}
