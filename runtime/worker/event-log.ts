import type pg from "pg";
import type { Logger } from "../common/logging.ts";
import { overConnectionLoss } from "../common/postgres.ts";
import type { RunEvent, RunRef } from "./event-bus.ts";
import { EventGatherer, type EventStore, type RecordedRun } from "./event-store.ts";

/** A page of a read: so many events and, past the first, so many bytes. */
const PAGE_EVENTS = 500;
const PAGE_BYTES = 4 * 1024 * 1024;
const PATIENCE_MS = 30_000;

interface Entry {
  run: RecordedRun;
  event: RunEvent;
  written: () => void;
}

/** Table `run_event`: written in batches over all runs of this worker, read in pages. */
export class EventLog implements EventStore {
  readonly #pool: pg.Pool;
  readonly #logger: Logger;
  readonly #gatherer = new EventGatherer<Entry>((entries) => this.#write(entries));

  constructor(pool: pg.Pool, logger: Logger) {
    this.#pool = pool;
    this.#logger = logger;
  }

  append(run: RecordedRun, event: RunEvent, written: () => void): Promise<void> | undefined {
    return this.#gatherer.add({ run, event, written });
  }

  flush(): Promise<void> {
    return this.#gatherer.flush();
  }

  close(): Promise<void> {
    return this.flush();
  }

  async *read(run: RunRef, afterId: number, beforeId: number): AsyncGenerator<RunEvent> {
    let last = afterId;
    while (true) {
      const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
        this.#pool.query<{ id: string; event: string; data: string; bytes: string }>({
          name: "read-events",
          text: READ,
          values: [run.tenant, run.graphId, run.runId, last, beforeId],
        }),
      );
      for (const row of rows) {
        last = Number(row.id);
        yield { id: last, event: row.event, data: row.data };
      }
      if (rows.length < PAGE_EVENTS && Number(rows.at(-1)?.bytes ?? 0) <= PAGE_BYTES) return;
    }
  }

  async #write(entries: Entry[]): Promise<void> {
    try {
      await overConnectionLoss(PATIENCE_MS, () =>
        this.#pool.query({
          name: "write-events",
          text: WRITE,
          values: [
            entries.map(({ run }) => run.tenant),
            entries.map(({ run }) => run.graphId),
            entries.map(({ run }) => run.runId),
            entries.map(({ run }) => run.claimToken),
            entries.map(({ event }) => event.id),
            entries.map(({ event }) => event.event),
            entries.map(({ event }) => event.data),
          ],
        }),
      );
      for (const written of new Set(entries.map((entry) => entry.written))) written();
    } catch (error) {
      // Listeners of this worker have them; a replay will lack them. The run itself goes on.
      this.#logger.error(
        { error: (error as Error).message, events: entries.length },
        "events lost",
      );
    }
  }
}

// Only the holder of the claim may add to a run's events.
const WRITE = `
  INSERT INTO run_event (tenant, graph_id, run_id, id, event, data)
    SELECT e.tenant, e.graph_id, e.run_id, e.id, e.event, e.data
      FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[], $5::bigint[], $6::text[],
                  $7::text[]) AS e(tenant, graph_id, run_id, claim_token, id, event, data)
      JOIN run r ON r.tenant = e.tenant AND r.graph_id = e.graph_id AND r.run_id = e.run_id
        AND r.claim_token = e.claim_token
    ON CONFLICT DO NOTHING`;
const READ = `
  SELECT id, event, data, bytes FROM (
    SELECT id, event, data, octet_length(data) AS size,
           sum(octet_length(data)) OVER (ORDER BY id) AS bytes
      FROM (
        SELECT id, event, data FROM run_event
          WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND id > $4 AND id < $5
          ORDER BY id LIMIT ${PAGE_EVENTS}
      ) AS page
  ) AS sized
  WHERE bytes - size <= ${PAGE_BYTES}
  ORDER BY id`;
