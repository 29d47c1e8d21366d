import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import type { Logger } from "../common/logging.ts";
import {
  type News,
  readSignal,
  type SignalListener,
  SignalOutbox,
  type Signals,
} from "./signals.ts";

const RECONNECT_MS = 500;

/**
 * Wake-ups between replicas by LISTEN/NOTIFY. Sent in batches and outside of any transaction:
 * a NOTIFY inside one makes all commits of the server wait for each other.
 */
export class PostgresSignals implements Signals {
  readonly #url: string;
  readonly #channel: string;
  readonly #logger: Logger;
  readonly #outbox: SignalOutbox;
  #listener: SignalListener | undefined;
  #client: pg.Client | undefined;
  #isClosed = false;

  /** @param url For the one connection that listens. */
  constructor(pool: pg.Pool, url: string, channel: string, logger: Logger) {
    this.#url = url;
    this.#channel = channel;
    this.#logger = logger;
    this.#outbox = new SignalOutbox(async (message) => {
      await pool.query({
        name: "notify",
        text: "SELECT pg_notify($1, $2)",
        values: [channel, message],
      });
    }, logger);
  }

  async start(listener: SignalListener): Promise<void> {
    this.#listener = listener;
    await this.#listen();
  }

  send(news: News): void {
    this.#outbox.add(news);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#outbox.flush();
    await this.#client?.end();
  }

  async #listen(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: "worker-listen",
      keepAlive: true,
    });
    client.on("notification", ({ payload }) => {
      const received = readSignal(payload);
      if (received !== undefined) this.#listener?.received(received);
      else this.#logger.warn("signal of unknown shape ignored");
    });
    client.on("error", (error) => {
      this.#logger.warn({ error: error.message }, "listening connection lost");
    });
    try {
      await client.connect();
      await client.query(`LISTEN ${pg.escapeIdentifier(this.#channel)}`);
    } catch (error) {
      await client.end();
      throw error;
    }
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
        this.#listener?.reconnected();
        return;
      } catch (error) {
        this.#logger.warn({ error: (error as Error).message }, "can't listen yet");
      }
    }
  }
}
