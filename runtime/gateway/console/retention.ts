import type pg from "pg";
import type { Logger } from "../../common/logging.ts";

const RETENTION_DAYS = 7;
const SWEEP_INTERVAL_MS = 10 * 60_000;
/** Small, so that no sweep holds locks or floods the log of the database for long. */
const TRACES_A_BATCH = 200;

/**
 * Deletes traces that began more than a week ago, with their spans, in small batches.
 *
 * @returns how many traces are gone.
 */
export async function sweepTraces(pool: pg.Pool): Promise<number> {
  let swept = 0;
  for (;;) {
    const { rowCount } = await pool.query(
      `WITH old AS (
         SELECT trace_id FROM tracing.trace
         WHERE started_at < now() - make_interval(days => $1)
         ORDER BY started_at LIMIT $2 FOR UPDATE SKIP LOCKED),
       spans AS (
         DELETE FROM tracing.span WHERE trace_id IN (SELECT trace_id FROM old))
       DELETE FROM tracing.trace WHERE trace_id IN (SELECT trace_id FROM old)`,
      [RETENTION_DAYS, TRACES_A_BATCH],
    );
    swept += rowCount ?? 0;
    if ((rowCount ?? 0) < TRACES_A_BATCH) return swept;
  }
}

/** Sweeps now and then for as long as the program lives. A sweep that fails is tried again later. */
export function keepSweeping(pool: pg.Pool, logger: Logger): { stop(): void } {
  const sweep = () => {
    sweepTraces(pool).then(
      (traces) => {
        if (traces > 0) logger.info({ traces }, "old traces deleted");
      },
      (error: Error) => logger.warn({ error: error.message }, "old traces were not deleted"),
    );
  };
  sweep();
  const timer = setInterval(sweep, SWEEP_INTERVAL_MS).unref();
  return { stop: () => clearInterval(timer) };
}
