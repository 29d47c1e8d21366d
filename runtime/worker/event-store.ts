import type { RunEvent, RunRef } from "./event-bus.ts";

/** A run whose events are kept, and the claim by which they may be added. */
export interface RecordedRun extends RunRef {
  claimToken: string;
}

/** Keeps the events of recorded runs for a while, for listeners on any replica. */
export interface EventStore {
  /**
   * Adds an event; it is written soon, together with others.
   *
   * @param written Called once it can be read everywhere.
   * @returns a promise to wait for, while too much is unwritten.
   */
  append(run: RecordedRun, event: RunEvent, written: () => void): Promise<void> | undefined;
  /** Resolves when all that was added so far is written (or given up and logged). */
  flush(): Promise<void>;
  /** The kept events with `afterId < id < beforeId`, in order. */
  read(run: RunRef, afterId: number, beforeId: number): AsyncIterable<RunEvent>;
  close(): Promise<void>;
}

/** Events wait this long for company, so that a token stream costs few statements. */
const GATHER_MS = 20;
/** With so many characters unwritten, publishers have to wait. */
export const HIGH_WATER_CHARACTERS = 4 * 1024 * 1024;

/** Gathers what all runs of this worker add, and has it written one batch at a time. */
export class EventGatherer<Entry extends { event: RunEvent }> {
  readonly #write: (entries: Entry[]) => Promise<void>;
  #entries: Entry[] = [];
  /** Of what waits or is being written. */
  #characters = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  /** @param write Never fails: it writes, or gives up and logs. */
  constructor(write: (entries: Entry[]) => Promise<void>) {
    this.#write = write;
  }

  add(entry: Entry): Promise<void> | undefined {
    this.#entries.push(entry);
    this.#characters += entry.event.data.length;
    if (this.#characters > HIGH_WATER_CHARACTERS) return this.flush();
    this.#timer ??= setTimeout(() => void this.flush(), GATHER_MS);
    return undefined;
  }

  flush(): Promise<void> {
    return this.#entries.length > 0 ? this.writeNow() : this.#writing;
  }

  /** As {@link flush}, but calls the writer even where nothing was added. */
  writeNow(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const entries = this.#entries;
    this.#entries = [];
    this.#writing = this.#writing.then(async () => {
      await this.#write(entries);
      for (const { event } of entries) this.#characters -= event.data.length;
    });
    return this.#writing;
  }
}
