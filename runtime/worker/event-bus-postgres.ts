import type pg from "pg";
import type { Logger } from "../common/logging.ts";
import { overConnectionLoss } from "../common/postgres.ts";
import type { EventBus, RunEvent, RunPublisher, RunRef } from "./event-bus.ts";
import { EventLog } from "./event-log.ts";
import { PostgresSignals } from "./postgres-signals.ts";
import { RunWindow } from "./run-window.ts";

/** A listener asks the store at least this often, should a signal have been lost. */
const RECHECK_MS = 2_000;
const ENDED = `
  SELECT 1 FROM run WHERE tenant = $1 AND graph_id = $2 AND run_id = $3
    AND status IN ('pending', 'running')`;

/**
 * The event bus on PostgreSQL alone: events in table `run_event`, wake-ups by NOTIFY, and for runs
 * that execute in this process straight from memory.
 */
export class PostgresEventBus implements EventBus {
  readonly #pool: pg.Pool;
  readonly #log: EventLog;
  readonly #signals: PostgresSignals;
  readonly #windows = new Map<string, RunWindow>();
  readonly #waiting = new Map<string, Set<() => void>>();
  #onQueued: () => void = () => {};
  #onCancelled: (runId: string) => void = () => {};

  /** @param url For the one connection that listens. */
  constructor(pool: pg.Pool, url: string, channel: string, logger: Logger) {
    this.#pool = pool;
    this.#log = new EventLog(pool, logger);
    this.#signals = new PostgresSignals(pool, url, channel, logger, {
      received: (signal) => {
        for (const runId of signal.changed) this.#wake(runId);
        for (const runId of signal.cancelled) this.#onCancelled(runId);
        if (signal.isQueued) this.#onQueued();
      },
      // Signals may have been lost meanwhile.
      reconnected: () => {
        for (const runId of [...this.#waiting.keys()]) this.#wake(runId);
        this.#onQueued();
      },
    });
  }

  /** Starts to listen; resolves once it does. */
  start(): Promise<void> {
    return this.#signals.start();
  }

  open(run: RunRef & { claimToken: string; attempt: number; recorded: boolean }): RunPublisher {
    const window = new RunWindow(run.attempt);
    this.#windows.set(run.runId, window);
    this.#wake(run.runId);
    return {
      publish: (event, data) => {
        if (!run.recorded) return undefined;
        return this.#log.append(run, window.append(event, data), () =>
          this.#signals.send({ changed: run.runId }),
        );
      },
      flush: () => this.#log.flush(),
      end: () => {
        window.hasEnded = true;
        if (this.#windows.get(run.runId) === window) this.#windows.delete(run.runId);
        window.wake();
        this.#wake(run.runId);
        this.#signals.send({ changed: run.runId });
      },
    };
  }

  async *follow(run: RunRef, afterId: number, signal: AbortSignal): AsyncGenerator<RunEvent> {
    let last = afterId;
    let window: RunWindow | undefined;
    while (!signal.aborted) {
      window ??= this.#windows.get(run.runId);
      if (window !== undefined) {
        const { gap, events } = window.after(last);
        if (gap) {
          // What the log lacks of the time before the window is lost: an attempt died with it.
          const start = events[0]?.id ?? window.nextId;
          for await (const event of this.#log.read(run, last, start)) {
            yield event;
            last = event.id;
          }
          last = Math.max(last, start - 1);
          continue;
        }
        for (const event of events) {
          yield event;
          last = event.id;
        }
        if (events.length > 0) continue;
        if (window.hasEnded) {
          // Ended here, or only this attempt of it: the lease may have gone to another worker.
          window = undefined;
          if (await this.#hasEnded(run)) return;
          continue;
        }
        await window.next(signal);
        continue;
      }
      const changed = this.#changed(run.runId, RECHECK_MS, signal);
      const hasEnded = await this.#hasEnded(run);
      let isIdle = true;
      for await (const event of this.#log.read(run, last, Number.MAX_SAFE_INTEGER)) {
        yield event;
        last = event.id;
        isIdle = false;
      }
      if (hasEnded) return;
      if (isIdle && !this.#windows.has(run.runId)) await changed;
    }
  }

  async ended(run: RunRef, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const changed = this.#changed(run.runId, timeoutMs, signal);
    if (!this.#windows.has(run.runId) && (await this.#hasEnded(run))) return true;
    await changed;
    return !this.#windows.has(run.runId) && (await this.#hasEnded(run));
  }

  announceQueued(): void {
    this.#signals.send({ isQueued: true });
  }

  announceCancelled(runIds: string[]): void {
    for (const runId of runIds) this.#signals.send({ cancelled: runId, changed: runId });
  }

  announceEnded(runIds: string[]): void {
    for (const runId of runIds) {
      this.#wake(runId);
      this.#signals.send({ changed: runId });
    }
  }

  onQueued(listener: () => void): void {
    this.#onQueued = listener;
  }

  onCancelled(listener: (runId: string) => void): void {
    this.#onCancelled = listener;
  }

  async close(): Promise<void> {
    await this.#log.flush();
    await this.#signals.close();
  }

  async #hasEnded(run: RunRef): Promise<boolean> {
    const { rows } = await overConnectionLoss(30_000, () =>
      this.#pool.query({
        name: "run-active",
        text: ENDED,
        values: [run.tenant, run.graphId, run.runId],
      }),
    );
    return rows.length === 0;
  }

  /** Resolves at the next signal about a run, at the latest after `timeoutMs`. */
  #changed(runId: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(runId) ?? new Set();
      this.#waiting.set(runId, waiting);
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        waiting.delete(done);
        if (waiting.size === 0) this.#waiting.delete(runId);
        resolve();
      };
      const timer = setTimeout(done, timeoutMs);
      waiting.add(done);
      signal.addEventListener("abort", done, { once: true });
      if (signal.aborted) done();
    });
  }

  #wake(runId: string): void {
    for (const done of [...(this.#waiting.get(runId) ?? [])]) done();
  }
}
