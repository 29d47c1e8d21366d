import type pg from "pg";
import { overConnectionLoss } from "../common/postgres.ts";
import type { EventBus, OpenRun, RunEvent, RunPublisher, RunRef } from "./event-bus.ts";
import type { EventStore } from "./event-store.ts";
import { RunWindow } from "./run-window.ts";
import type { Signals } from "./signals.ts";

/** A listener asks the database at least this often, should a signal have been lost. */
const RECHECK_MS = 2_000;
const PATIENCE_MS = 30_000;
const ACTIVE: ReadonlySet<string> = new Set(["pending", "running"]);
const STATE = `
  SELECT status, attempt FROM run WHERE tenant = $1 AND graph_id = $2 AND run_id = $3`;
const FAILURE = `
  SELECT output -> '__error__' AS error FROM run
    WHERE tenant = $1 AND graph_id = $2 AND run_id = $3 AND status = 'error' AND recorded`;

interface RunState {
  status: string;
  /** The latest one. */
  attempt: number;
}

/**
 * The event bus over any store of events and any signals: runs that execute in this process are
 * followed straight from memory, others through the store. Whether a run has ended is PostgreSQL's
 * word alone, so that neither a lost event nor a lost signal can hide it.
 */
export class RunEventBus implements EventBus {
  readonly #pool: pg.Pool;
  readonly #store: EventStore;
  readonly #signals: Signals;
  readonly #windows = new Map<string, RunWindow>();
  readonly #waiting = new Map<string, Set<() => void>>();
  #onQueued: () => void = () => {};
  #onCancelled: (runId: string) => void = () => {};

  constructor(pool: pg.Pool, store: EventStore, signals: Signals) {
    this.#pool = pool;
    this.#store = store;
    this.#signals = signals;
  }

  start(): Promise<void> {
    return this.#signals.start({
      received: (signal) => {
        for (const runId of signal.changed) this.#wake(runId);
        for (const runId of signal.cancelled) this.#onCancelled(runId);
        if (signal.isQueued) this.#onQueued();
      },
      reconnected: () => {
        for (const runId of [...this.#waiting.keys()]) this.#wake(runId);
        this.#onQueued();
      },
    });
  }

  open(run: OpenRun): RunPublisher {
    const window = new RunWindow(run.attempt);
    this.#windows.set(run.runId, window);
    this.#wake(run.runId);
    const announce = () => this.#signals.send({ changed: run.runId });
    return {
      publish: (event, data) => {
        if (!run.recorded) return undefined;
        return this.#store.append(run, window.append(event, data), announce);
      },
      flush: async () => {
        if (run.recorded) await this.#store.flush();
      },
      end: () => {
        window.hasEnded = true;
        if (this.#windows.get(run.runId) === window) this.#windows.delete(run.runId);
        window.wake();
        this.#wake(run.runId);
        announce();
      },
    };
  }

  async *follow(run: RunRef, afterId: number, signal: AbortSignal): AsyncGenerator<RunEvent> {
    const { status, last } = yield* this.#events(run, afterId, signal);
    if (status !== "error" || last?.event === "error") return;
    // Nobody was told anything: how the run ended is not this bus's to tell.
    if (last === undefined && afterId < 0) return;
    if (last === undefined && (await this.#isError(run, afterId))) return;
    // The failure was lost with the store, or with the run's worker: a stream that just ends would
    // pass for success.
    const data = await this.#failure(run);
    if (data !== undefined) yield { id: (last?.id ?? afterId) + 1, event: "error", data };
  }

  async ended(run: RunRef, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const changed = this.#changed(run.runId, timeoutMs, signal);
    if (!this.#windows.has(run.runId) && hasEnded(await this.#state(run))) return true;
    await changed;
    return !this.#windows.has(run.runId) && hasEnded(await this.#state(run));
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
    await this.#store.flush();
    await this.#signals.close();
    await this.#store.close();
  }

  /** The run's events until it has ended; returns how it did, and the last event. */
  async *#events(
    run: RunRef,
    afterId: number,
    signal: AbortSignal,
  ): AsyncGenerator<RunEvent, { status?: string | undefined; last?: RunEvent | undefined }> {
    let lastId = afterId;
    let last: RunEvent | undefined;
    let window: RunWindow | undefined;
    while (!signal.aborted) {
      window ??= this.#windows.get(run.runId);
      if (window !== undefined) {
        const { gap, events } = window.after(lastId);
        if (gap) {
          // Some of it may not be written yet. What the store lacks then is lost: an attempt died
          // with it.
          const start = events[0]?.id ?? window.nextId;
          await this.#store.flush();
          for await (const event of this.#store.read(run, lastId, start)) {
            yield event;
            last = event;
          }
          lastId = Math.max(lastId, start - 1);
          continue;
        }
        for (const event of events) {
          yield event;
          last = event;
          lastId = event.id;
        }
        if (events.length > 0) continue;
        if (window.hasEnded) {
          // Ended here, or only this attempt of it: the lease may have gone to another worker.
          const state = await this.#state(run);
          if (hasEnded(state) && (state?.attempt ?? window.attempt) === window.attempt) {
            return { status: state?.status, last };
          }
          window = undefined;
          continue;
        }
        await window.next(signal);
        continue;
      }
      const changed = this.#changed(run.runId, RECHECK_MS, signal);
      const state = await this.#state(run);
      let isIdle = true;
      for await (const event of this.#store.read(run, lastId, Number.MAX_SAFE_INTEGER)) {
        yield event;
        last = event;
        lastId = event.id;
        isIdle = false;
      }
      if (hasEnded(state)) return { status: state?.status, last };
      if (isIdle && !this.#windows.has(run.runId)) await changed;
    }
    return {};
  }

  /** Undefined where the run is gone. */
  async #state(run: RunRef): Promise<RunState | undefined> {
    const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
      this.#pool.query<RunState>({
        name: "run-state",
        text: STATE,
        values: [run.tenant, run.graphId, run.runId],
      }),
    );
    return rows[0];
  }

  /** The data of an `error` event for a recorded run that has failed. */
  async #failure(run: RunRef): Promise<string | undefined> {
    const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
      this.#pool.query<{ error: unknown }>({
        name: "run-failure",
        text: FAILURE,
        values: [run.tenant, run.graphId, run.runId],
      }),
    );
    return rows[0] && JSON.stringify(rows[0].error ?? {});
  }

  async #isError(run: RunRef, id: number): Promise<boolean> {
    for await (const { event } of this.#store.read(run, id - 1, id + 1)) return event === "error";
    return false;
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

function hasEnded(state: RunState | undefined): boolean {
  return state === undefined || !ACTIVE.has(state.status);
}
