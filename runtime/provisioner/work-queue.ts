import { type Backoff, createBackoff } from "../common/kubernetes/backoff.ts";

export interface WorkQueueOptions {
  /** Does what is to be done for a key; comes back with the ms until it wants to be called again. */
  work: (key: string) => Promise<number | undefined>;
  /** Told of what a piece of work threw; it is tried again by itself. */
  onFailure: (key: string, error: unknown) => void;
  concurrency: number;
  /** The first pause after a failure, in ms, and the longest one. */
  backoffMs: [number, number];
}

/** setTimeout knows no longer time. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Keys that something is to be done for: each once however often it is asked for, never twice at a
 * time, and again with growing pauses while it fails.
 */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #waiting = new Set<string>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #timers = new Map<string, { timer: NodeJS.Timeout; at: number }>();
  readonly #backoffs = new Map<string, Backoff>();
  #stopped = false;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  /** Asks for work now. */
  add(key: string): void {
    if (this.#stopped) return;
    this.#waiting.add(key);
    this.#next();
  }

  /** Asks for work after `ms`, unless it is asked for sooner. */
  addLater(key: string, ms: number): void {
    const at = Date.now() + ms;
    const set = this.#timers.get(key);
    if (this.#stopped || (set !== undefined && set.at <= at)) return;
    clearTimeout(set?.timer);
    const timer = setTimeout(
      () => {
        this.#timers.delete(key);
        this.add(key);
      },
      Math.min(ms, LONGEST_TIMER_MS),
    );
    this.#timers.set(key, { timer, at });
  }

  /** Takes up nothing more, and waits for what is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.clear();
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    await Promise.all(this.#running.values());
  }

  #next(): void {
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#options.concurrency) return;
      if (this.#running.has(key)) continue;
      this.#waiting.delete(key);
      this.#running.set(key, this.#run(key));
    }
  }

  async #run(key: string): Promise<void> {
    try {
      const againMs = await this.#options.work(key);
      this.#backoffs.delete(key);
      if (againMs !== undefined) this.addLater(key, againMs);
    } catch (error) {
      const [firstMs, longestMs] = this.#options.backoffMs;
      const backoff = this.#backoffs.get(key) ?? createBackoff(firstMs, longestMs);
      this.#backoffs.set(key, backoff);
      this.#options.onFailure(key, error);
      this.addLater(key, backoff.next());
    } finally {
      this.#running.delete(key);
      this.#next();
    }
  }
}
