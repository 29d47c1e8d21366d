import type pg from "pg";
import type { Logger } from "../common/logging.ts";
import { EventLog } from "./event-log.ts";
import { PostgresSignals } from "./postgres-signals.ts";
import { RunEventBus } from "./run-event-bus.ts";

/**
 * The event bus on PostgreSQL alone: events in table `run_event`, wake-ups by NOTIFY.
 *
 * @param url For the one connection that listens.
 * @param channel What all replicas listen to.
 */
export function createPostgresEventBus(
  pool: pg.Pool,
  url: string,
  channel: string,
  logger: Logger,
): RunEventBus {
  return new RunEventBus(
    pool,
    new EventLog(pool, logger),
    new PostgresSignals(pool, url, channel, logger),
  );
}
