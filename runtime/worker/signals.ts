import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { Logger } from "../common/logging.ts";

/** PostgreSQL takes 8,000 bytes a notification; an id with its quotes has 39. */
const CHANGED_PER_SIGNAL = 150;
const CANCELLED_PER_SIGNAL = 50;
/** Signals wait this long for company. */
const GATHER_MS = 5;

const signal = z.object({
  changed: z.array(z.string()),
  cancelled: z.array(z.string()),
  isQueued: z.boolean(),
});

/** What replicas tell each other: runs that have news or were cancelled, and that some wait. */
export type Signal = z.output<typeof signal>;

/** One piece of a {@link Signal}: the id of a run that has news or was cancelled. */
export interface News {
  changed?: string;
  cancelled?: string;
  isQueued?: boolean;
}

/** Called with what other replicas, and this one, have sent. */
export interface SignalListener {
  received(signal: Signal): void;
  /** Signals may have been lost until now. */
  reconnected(): void;
}

/**
 * Wake-ups between replicas. They may be lost: whoever waits for one also asks the store now and
 * then.
 */
export interface Signals {
  /** Starts to listen. */
  start(listener: SignalListener): Promise<void>;
  send(news: News): void;
  /** Sends what is still gathered, then stops. */
  close(): Promise<void>;
}

/** Gathers news over a few milliseconds, so that many of them cost one message. */
export class SignalOutbox {
  readonly #post: (message: string) => Promise<void>;
  readonly #logger: Logger;
  readonly #changed = new Set<string>();
  readonly #cancelled = new Set<string>();
  #isQueued = false;
  #sending: Promise<void> | undefined;

  /** @param post Sends a message to all replicas; it is one for {@link readSignal}. */
  constructor(post: (message: string) => Promise<void>, logger: Logger) {
    this.#post = post;
    this.#logger = logger;
  }

  add({ changed, cancelled, isQueued }: News): void {
    if (changed !== undefined) this.#changed.add(changed);
    if (cancelled !== undefined) this.#cancelled.add(cancelled);
    if (isQueued) this.#isQueued = true;
    this.#sending ??= delay(GATHER_MS).then(() => this.#sendAll());
  }

  /** Resolves when all that was added so far has been sent (or given up and logged). */
  async flush(): Promise<void> {
    await this.#sending;
  }

  async #sendAll(): Promise<void> {
    while (this.#changed.size > 0 || this.#cancelled.size > 0 || this.#isQueued) {
      const next: Signal = {
        changed: take(this.#changed, CHANGED_PER_SIGNAL),
        cancelled: take(this.#cancelled, CANCELLED_PER_SIGNAL),
        isQueued: this.#isQueued,
      };
      this.#isQueued = false;
      try {
        await this.#post(JSON.stringify(next));
      } catch (error) {
        // Listeners ask again by themselves within seconds.
        this.#logger.warn({ error: (error as Error).message }, "signal lost");
      }
    }
    this.#sending = undefined;
  }
}

/** The signal that a message holds, or undefined if it is none. */
export function readSignal(message: string | undefined): Signal | undefined {
  const result = signal.safeParse(parseJson(message));
  return result.success ? result.data : undefined;
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
    // Not JSON: as unknown as any other shape, which the caller reports.
    return undefined;
  }
}
