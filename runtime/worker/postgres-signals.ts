import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { z } from "zod";
import type { Logger } from "../common/logging.ts";

/** PostgreSQL takes 8,000 bytes a notification; an id with its quotes has 39. */
const IDS_PER_SIGNAL = 150;
const RECONNECT_MS = 500;
/** Signals wait this long for company. */
const GATHER_MS = 5;

const signal = z.object({
  changed: z.array(z.string()),
  cancelled: z.array(z.string()),
  isQueued: z.boolean(),
});

export type Signal = z.output<typeof signal>;

/**
 * Wake-ups between replicas by LISTEN/NOTIFY. Sent in batches and outside of any transaction:
 * a NOTIFY inside one makes all commits of the server wait for each other.
 */
export class PostgresSignals {
  readonly #pool: pg.Pool;
  readonly #url: string;
  readonly #channel: string;
  readonly #logger: Logger;
  readonly #on: { received: (signal: Signal) => void; reconnected: () => void };
  readonly #changed = new Set<string>();
  readonly #cancelled = new Set<string>();
  #isQueued = false;
  #isSending = false;
  #isClosed = false;
  #client: pg.Client | undefined;

  constructor(
    pool: pg.Pool,
    url: string,
    channel: string,
    logger: Logger,
    on: { received: (signal: Signal) => void; reconnected: () => void },
  ) {
    this.#pool = pool;
    this.#url = url;
    this.#channel = channel;
    this.#logger = logger;
    this.#on = on;
  }

  async start(): Promise<void> {
    await this.#listen();
  }

  send(what: { changed?: string; cancelled?: string; isQueued?: boolean }): void {
    if (what.changed !== undefined) this.#changed.add(what.changed);
    if (what.cancelled !== undefined) this.#cancelled.add(what.cancelled);
    if (what.isQueued) this.#isQueued = true;
    if (this.#isSending) return;
    this.#isSending = true;
    setTimeout(() => void this.#sendAll(), GATHER_MS);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#client?.end();
  }

  async #sendAll(): Promise<void> {
    while (this.#changed.size > 0 || this.#cancelled.size > 0 || this.#isQueued) {
      const next: Signal = {
        changed: take(this.#changed, IDS_PER_SIGNAL),
        cancelled: take(this.#cancelled, IDS_PER_SIGNAL / 3),
        isQueued: this.#isQueued,
      };
      this.#isQueued = false;
      try {
        await this.#pool.query({
          name: "notify",
          text: "SELECT pg_notify($1, $2)",
          values: [this.#channel, JSON.stringify(next)],
        });
      } catch (error) {
        // Listeners ask again by themselves within seconds.
        this.#logger.warn({ error: (error as Error).message }, "signal lost");
      }
    }
    this.#isSending = false;
  }

  async #listen(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: "worker-listen",
      keepAlive: true,
    });
    client.on("notification", ({ payload }) => {
      const received = signal.safeParse(parseJson(payload));
      if (received.success) this.#on.received(received.data);
      else this.#logger.warn("signal of unknown shape ignored");
    });
    client.on("error", (error) => {
      this.#logger.warn({ error: error.message }, "listening connection lost");
    });
    await client.connect();
    await client.query(`LISTEN ${pg.escapeIdentifier(this.#channel)}`);
    client.once("end", () => {
      if (!this.#isClosed) void this.#reconnect();
    });
    this.#client = client;
  }

  async #reconnect(): Promise<void> {
    while (!this.#isClosed) {
      await delay(RECONNECT_MS, undefined, { ref: false });
      try {
        await this.#listen();
        this.#on.reconnected();
        return;
      } catch (error) {
        this.#logger.warn({ error: (error as Error).message }, "can't listen yet");
      }
    }
  }
}

function take(ids: Set<string>, count: number): string[] {
  const taken = [...ids].slice(0, count);
  for (const id of taken) ids.delete(id);
  return taken;
}

function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}
