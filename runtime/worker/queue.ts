import type { Logger } from "../common/logging.ts";
import type { EventBus } from "./event-bus.ts";
import type { Executor } from "./executor.ts";
import type { ClaimedRun } from "./run.ts";
import type { RunClaims } from "./run-claims.ts";

/** A run that waits for `after_seconds` or whose signal was lost is found within this time. */
const POLL_MS = 1_000;
const PURGE_MS = 60_000;

export interface QueueOptions {
  concurrentRuns: number;
  heartbeatMs: number;
  reaperMs: number;
  maxAttempts: number;
}

/**
 * Decides what this worker executes: takes runs from the queue while it has room, renews their
 * leases, and puts the runs of dead workers back.
 */
export class Queue {
  readonly #claims: RunClaims;
  readonly #bus: EventBus;
  readonly #executor: Executor;
  readonly #graphIds: readonly string[];
  readonly #options: QueueOptions;
  readonly #logger: Logger;
  readonly #timers: NodeJS.Timeout[] = [];
  #reserved = 0;
  #mayWait = true;
  /** Set while this worker asks the database for runs. */
  #claiming: Promise<void> | undefined;
  #isStopping = false;

  constructor(
    deps: {
      claims: RunClaims;
      bus: EventBus;
      executor: Executor;
      graphIds: readonly string[];
      logger: Logger;
    },
    options: QueueOptions,
  ) {
    this.#claims = deps.claims;
    this.#bus = deps.bus;
    this.#executor = deps.executor;
    this.#graphIds = deps.graphIds;
    this.#logger = deps.logger;
    this.#options = options;
  }

  start(): void {
    if (this.#isStopping) return;
    this.#bus.onQueued(() => this.#fill(true));
    this.#bus.onCancelled((runId) => void this.#renew([runId]));
    this.#executor.onEnded = (queued) => this.#fill(queued);
    this.#every(POLL_MS, async () => this.#fill(true));
    this.#every(this.#options.heartbeatMs, () => this.#renew());
    this.#every(this.#options.reaperMs, () => this.#reap());
    this.#every(PURGE_MS, () => this.#claims.purge());
    void this.#logged(() => this.#reap());
  }

  /**
   * Makes room for a run that is about to be accepted, so that it can be claimed with it. False if
   * there is none. Give it back with {@link unreserve}.
   */
  reserve(): boolean {
    if (this.#isStopping || this.#room <= 0) return false;
    this.#reserved += 1;
    return true;
  }

  unreserve(): void {
    this.#reserved -= 1;
  }

  /**
   * Takes no more runs; those under way go on. What the database hands out meanwhile goes back to
   * the queue: resolves when nothing is on its way any more.
   */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const timer of this.#timers.slice(0, 1)) clearInterval(timer);
    await this.#claiming;
  }

  /** Ends the leases' renewal as well. */
  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Runs of this thread wait, or may: see whether there is room for them. */
  announce(): void {
    this.#fill(true);
    this.#bus.announceQueued();
  }

  get #room(): number {
    return this.#options.concurrentRuns - this.#executor.activeRuns.length - this.#reserved;
  }

  #fill(mayWait: boolean): void {
    this.#mayWait ||= mayWait;
    if (!this.#mayWait || this.#claiming || this.#isStopping || this.#room <= 0) return;
    this.#claiming = this.#logged(() => this.#claim()).finally(() => {
      this.#claiming = undefined;
    });
  }

  async #claim(): Promise<void> {
    do {
      this.#mayWait = false;
      const room = this.#room;
      const runs = await this.#claimRuns(room);
      if (this.#isStopping) return this.#giveBack(runs);
      for (const run of runs) void this.#executor.start(run);
      if (runs.length === room) this.#mayWait = true;
    } while (this.#mayWait && this.#room > 0 && !this.#isStopping);
  }

  async #claimRuns(room: number): Promise<ClaimedRun[]> {
    // One that ends its worker has to be alone among those that may be it, or all would be blamed.
    const takesSuspect = !this.#executor.activeRuns.some(({ isSuspect }) => isSuspect);
    try {
      return await this.#claims.claim(this.#graphIds, room, takesSuspect);
    } catch (error) {
      // Another worker claimed a run of the same thread at this very moment: look again later.
      if ((error as { code?: string }).code === "23505") return [];
      throw error;
    }
  }

  /** They were claimed while this worker was told to stop: nobody has to wait for their leases. */
  async #giveBack(runs: ClaimedRun[]): Promise<void> {
    await Promise.all(runs.map((run) => this.#claims.release(run)));
    if (runs.length > 0) this.#bus.announceQueued();
  }

  /** Renews leases; stops what was cancelled or went to another worker. */
  async #renew(only?: string[]): Promise<void> {
    const runs = this.#executor.activeRuns.filter(
      (run) => only === undefined || only.includes(run.runId),
    );
    if (runs.length === 0) return;
    const held = await this.#claims.renew(runs);
    for (const run of runs) {
      const action = held.get(run);
      if (action === undefined) this.#executor.stop(run, "lease lost");
      else if (action !== null) this.#executor.stop(run, action);
    }
  }

  async #reap(): Promise<void> {
    const reaped = await this.#claims.reap(this.#options.maxAttempts);
    if (reaped.length === 0) return;
    this.#logger.warn({ runs: reaped }, "runs of a lost worker");
    this.#bus.announceEnded(
      reaped.filter(({ fate }) => fate === "ended").map(({ runId }) => runId),
    );
    this.announce();
  }

  /** Repeats work; while the database hangs, not more of it at a time than one. */
  #every(milliseconds: number, work: () => Promise<void>): void {
    let isBusy = false;
    const repeat = async () => {
      if (isBusy) return;
      isBusy = true;
      await this.#logged(work);
      isBusy = false;
    };
    this.#timers.push(setInterval(() => void repeat(), milliseconds));
  }

  async #logged(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#logger.error({ err: error }, "background work failed, will be tried again");
    }
  }
}
