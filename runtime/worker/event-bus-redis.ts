import type pg from "pg";
import type { Logger } from "../common/logging.ts";
import { RedisConnection } from "./redis-connection.ts";
import { RedisSignals } from "./redis-signals.ts";
import { RedisStreams } from "./redis-streams.ts";
import { RunEventBus } from "./run-event-bus.ts";

/**
 * The event bus on Redis 6.2 or later, or Valkey (one primary, not a cluster): events in streams
 * `<prefix>:run:<tenant>/<graph>/<run>` that go an hour after their run's latest event, wake-ups by
 * publish and subscribe on `<prefix>:signals`. Which runs there are, and how they ended, stays in
 * PostgreSQL, so Redis may vanish and come back empty.
 *
 * A user of Redis for it needs no more than
 * `~<prefix>:* &<prefix>:* -@all +xadd +xrange +expire +publish +subscribe`
 * (beside AUTH and HELLO, which Redis allows everybody).
 *
 * @param redis.url `redis://` or, with TLS, `rediss://`.
 */
export function createRedisEventBus(
  pool: pg.Pool,
  redis: { url: string; prefix: string },
  logger: Logger,
): RunEventBus {
  const connection = new RedisConnection(redis.url, "events", logger);
  const subscriber = new RedisConnection(redis.url, "signals", logger);
  const bus = new RunEventBus(
    pool,
    new RedisStreams(connection, redis.prefix, logger),
    new RedisSignals(connection, subscriber, `${redis.prefix}:signals`, logger),
  );
  connection.connect();
  return bus;
}
