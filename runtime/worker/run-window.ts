import type { RunEvent } from "./event-bus.ts";

/** Events of one run kept in memory: enough that a listener of this worker seldom needs the log. */
const WINDOW_EVENTS = 512;
const WINDOW_CHARACTERS = 1024 * 1024;
/** So many events an attempt may publish before its ids would meet the next attempt's. */
const IDS_PER_ATTEMPT = 1_000_000_000;

/** The latest events of a run that executes here, and who waits for the next one. */
export class RunWindow {
  readonly #events: RunEvent[] = [];
  readonly #waiting = new Set<() => void>();
  #characters = 0;
  #nextId: number;
  /** The run has ended: nothing will follow. */
  hasEnded = false;

  readonly attempt: number;

  /** @param attempt 1 for the first. Its events get ids from 0, the second's from 10^9, … */
  constructor(attempt: number) {
    this.attempt = attempt;
    this.#nextId = (attempt - 1) * IDS_PER_ATTEMPT;
  }

  append(event: string, data: string): RunEvent {
    const entry = { id: this.#nextId++, event, data };
    this.#events.push(entry);
    this.#characters += data.length;
    while (this.#events.length > WINDOW_EVENTS || this.#characters > WINDOW_CHARACTERS) {
      if (this.#events.length === 1) break;
      this.#characters -= this.#events.shift()?.data.length ?? 0;
    }
    this.wake();
    return entry;
  }

  /**
   * The events after an id. `gap` says that some before them are no longer (or, of an earlier
   * attempt, never were) in memory: read the log first.
   */
  after(id: number): { gap: boolean; events: RunEvent[] } {
    const first = this.#events[0];
    if (first === undefined) return { gap: this.#nextId > id + 1, events: [] };
    return {
      gap: first.id > id + 1,
      events: this.#events.filter((entry) => entry.id > id),
    };
  }

  /** The id that the next event will get. */
  get nextId(): number {
    return this.#nextId;
  }

  /** Resolves at the next event or the end. */
  next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#waiting.add(done);
      signal.addEventListener("abort", done, { once: true });
      if (signal.aborted) done();
    });
  }

  wake(): void {
    for (const done of [...this.#waiting]) done();
  }
}
