import { setTimeout as delay } from "node:timers/promises";
import type { ChainableCommander } from "ioredis";
import { z } from "zod";
import type { Logger } from "../common/logging.ts";
import type { RunEvent, RunRef } from "./event-bus.ts";
import {
  EventGatherer,
  type EventStore,
  HIGH_WATER_CHARACTERS,
  type RecordedRun,
} from "./event-store.ts";
import { isPassing, type RedisConnection } from "./redis-connection.ts";

/** As long as table `run_event` keeps them; counted from a run's latest event. */
const KEPT_S = 3_600;
/** Of a run with more events about so many are kept: the latest. */
const KEPT_EVENTS = 50_000;
const BATCH = 1_000;
const PAGE = 200;
/** Of one write or read, should the connection be lost meanwhile. */
const TRIES = 3;
/** After a failure, so that what follows knows whether the connection still stands. */
const PAUSE_MS = 50;
/** Redis answers, but can't write now: it is asked again after this time. */
const RETRY_MS = 500;
/** What Redis says of an id that is not beyond the last one of the stream. */
const REFUSED_ID = "equal or smaller";

const streamEntry = z.tuple([
  z.string(),
  z.tuple([z.literal("event"), z.string(), z.literal("data"), z.string()]),
]);

interface Entry {
  /** Of its run's stream. */
  key: string;
  event: RunEvent;
  written: () => void;
}

/**
 * Events in Redis: a stream a run, in which the event's id is the entry's, so that Redis itself
 * refuses an event after a later one. As an attempt's ids are all greater than those of the one
 * before, a worker that lost its lease can't add to what its successor tells.
 *
 * While Redis is away, what was not written yet is kept up to a bound and written when it is back;
 * no run waits or fails for it.
 */
export class RedisStreams implements EventStore {
  readonly #connection: RedisConnection;
  readonly #prefix: string;
  readonly #logger: Logger;
  readonly #gatherer = new EventGatherer<Entry>((entries) => this.#write(entries));
  #backlog: Entry[] = [];
  #retry: NodeJS.Timeout | undefined;
  #isWriting = false;
  #lost = 0;

  constructor(connection: RedisConnection, prefix: string, logger: Logger) {
    this.#connection = connection;
    this.#prefix = prefix;
    this.#logger = logger;
    connection.onReady(() => {
      if (!this.#isWriting) void this.#gatherer.writeNow();
    });
  }

  append(run: RecordedRun, event: RunEvent, written: () => void): Promise<void> | undefined {
    return this.#gatherer.add({ key: this.#key(run), event, written });
  }

  flush(): Promise<void> {
    return this.#gatherer.flush();
  }

  async close(): Promise<void> {
    await this.flush();
    clearTimeout(this.#retry);
    this.#connection.close();
  }

  /**
   * What can't be read, for Redis is away or has forgotten it, is left out, but for what only this
   * worker has yet.
   */
  async *read(run: RunRef, afterId: number, beforeId: number): AsyncGenerator<RunEvent> {
    const key = this.#key(run);
    let last = afterId;
    while (true) {
      // Looked up first: what is written while the page is on its way must be in one of the two.
      const unwritten = this.#unwritten(key, last, beforeId);
      const page = await this.#page(key, last, beforeId);
      for (const [id, [, event, , data]] of page) {
        last = Number.parseInt(id, 10);
        yield { id: last, event, data };
      }
      if (page.length === PAGE) continue;
      for (const event of unwritten) if (event.id > last) yield event;
      return;
    }
  }

  #unwritten(key: string, afterId: number, beforeId: number): RunEvent[] {
    return this.#backlog
      .filter((entry) => entry.key === key)
      .map(({ event }) => event)
      .filter(({ id }) => id > afterId && id < beforeId);
  }

  async #page(key: string, afterId: number, beforeId: number) {
    for (let left = TRIES; left > 0 && (await this.#connection.whenReady()); left -= 1) {
      try {
        const { client } = this.#connection;
        const found = await client.xrange(key, afterId + 1, beforeId - 1, "COUNT", PAGE);
        return z.array(streamEntry).parse(found);
      } catch (error) {
        if (!isPassing(error as Error)) {
          this.#logger.error({ error: (error as Error).message }, "events can't be read");
          return [];
        }
        await delay(PAUSE_MS);
      }
    }
    return [];
  }

  async #write(entries: Entry[]): Promise<void> {
    this.#isWriting = true;
    clearTimeout(this.#retry);
    this.#backlog = this.#backlog.concat(entries);
    let failures = 0;
    while (this.#backlog.length > 0 && (await this.#connection.whenReady())) {
      const batch = this.#backlog.slice(0, BATCH);
      const unwritten = await this.#send(batch);
      this.#backlog = unwritten.concat(this.#backlog.slice(batch.length));
      if (unwritten.length === 0) continue;
      failures += 1;
      // A lost connection is known by then. If it stands, it is Redis that can't write now.
      await delay(PAUSE_MS);
      if (failures < TRIES && !this.#connection.isReady) continue;
      this.#retry = setTimeout(() => void this.#gatherer.writeNow(), RETRY_MS);
      break;
    }
    this.#bound();
    this.#isWriting = false;
  }

  /** Returns what has to be tried again. */
  async #send(entries: Entry[]): Promise<Entry[]> {
    const keys = [...new Set(entries.map(({ key }) => key))];
    const pipeline = this.#connection.client.pipeline();
    for (const { key, event } of entries) addEvent(pipeline, key, event);
    for (const key of keys) pipeline.expire(key, KEPT_S);
    const errors = ((await pipeline.exec()) ?? []).map(([error]) => error);
    // A stream without an end of its time would stay for ever: its entries are written again.
    const endless = new Set(
      keys.filter((_key, index) => {
        const error = errors[entries.length + index];
        return error && isPassing(error);
      }),
    );
    const unwritten: Entry[] = [];
    const written = new Set<() => void>();
    for (const [index, entry] of entries.entries()) {
      const error = errors[index] ?? undefined;
      if (endless.has(entry.key) || (error && isPassing(error))) unwritten.push(entry);
      // Refused: written by the try before, or told by an attempt that another one has followed.
      else if (error && !error.message.includes(REFUSED_ID)) this.#lose(1, error.message);
      else written.add(entry.written);
    }
    if (written.size > 0) this.#reportLosses();
    for (const announce of written) announce();
    return unwritten;
  }

  /** Keeps the latest of what waits for Redis to come back. */
  #bound(): void {
    let characters = 0;
    let kept = this.#backlog.length;
    while (kept > 0) {
      characters += this.#backlog[kept - 1]?.event.data.length ?? 0;
      if (characters > HIGH_WATER_CHARACTERS) break;
      kept -= 1;
    }
    if (kept === 0) return;
    this.#backlog.splice(0, kept);
    this.#lose(kept, "Redis is away for too long");
  }

  #lose(events: number, error: string): void {
    if (this.#lost === 0) {
      this.#logger.error({ error }, "events are being lost for listeners on other replicas");
    }
    this.#lost += events;
  }

  #reportLosses(): void {
    if (this.#lost === 0) return;
    this.#logger.error({ events: this.#lost }, "events were lost; they are written again now");
    this.#lost = 0;
  }

  #key({ tenant, graphId, runId }: RunRef): string {
    return `${this.#prefix}:run:${[tenant, graphId, runId].map(encodeURIComponent).join("/")}`;
  }
}

// Redis takes no entry 0-0, so the second half of an entry's id is 1 throughout.
function addEvent(pipeline: ChainableCommander, key: string, { id, event, data }: RunEvent): void {
  pipeline.xadd(key, "MAXLEN", "~", KEPT_EVENTS, `${id}-1`, "event", event, "data", data);
}
