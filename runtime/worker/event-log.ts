import type pg from "pg";
import type { Logger } from "../common/logging.ts";
import { overConnectionLoss } from "../common/postgres.ts";
import type { RunEvent, RunRef } from "./event-bus.ts";

/** Events wait this long for company, so that a token stream costs few statements. */
const GATHER_MS = 20;
/** With so many characters unwritten, publishers have to wait. */
const HIGH_WATER_CHARACTERS = 4 * 1024 * 1024;
const PAGE = 500;
const PATIENCE_MS = 30_000;

interface Entry {
  run: RunRef & { claimToken: string };
  event: RunEvent;
  written: () => void;
}

/** Table `run_event`: written in batches over all runs of this worker, read in pages. */
export class EventLog {
  readonly #pool: pg.Pool;
  readonly #logger: Logger;
  #entries: Entry[] = [];
  #characters = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(pool: pg.Pool, logger: Logger) {
    this.#pool = pool;
    this.#logger = logger;
  }

  /** @returns a promise to wait for, while too much is unwritten. */
  append(
    run: RunRef & { claimToken: string },
    event: RunEvent,
    written: () => void,
  ): Promise<void> | undefined {
    this.#entries.push({ run, event, written });
    this.#characters += event.data.length;
    if (this.#characters > HIGH_WATER_CHARACTERS) return this.flush();
    this.#timer ??= setTimeout(() => void this.flush(), GATHER_MS);
    return undefined;
  }

  /** Resolves when all that was appended so far is written (or given up and logged). */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#entries.length > 0) {
      const entries = this.#entries;
      this.#entries = [];
      this.#characters = 0;
      this.#writing = this.#writing.then(() => this.#write(entries));
    }
    return this.#writing;
  }

  /** The kept events with `afterId < id < beforeId`, in order. */
  async *read(run: RunRef, afterId: number, beforeId: number): AsyncGenerator<RunEvent> {
    let last = afterId;
    while (true) {
      const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
        this.#pool.query<{ id: string; event: string; data: string }>({
          name: "read-events",
          text: READ,
          values: [run.tenant, run.graphId, run.runId, last, beforeId],
        }),
      );
      for (const row of rows) {
        last = Number(row.id);
        yield { id: last, event: row.event, data: row.data };
      }
      if (rows.length < PAGE) return;
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
  SELECT id, event, data FROM run_event
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND id > $4 AND id < $5
    ORDER BY id LIMIT ${PAGE}`;
