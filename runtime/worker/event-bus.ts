import type { Scope } from "./scope.ts";

/** One event of a run's stream: an SSE event name and its JSON. */
export interface RunEvent {
  /** Unique and monotonic within the run, over all attempts. */
  id: number;
  event: string;
  data: string;
}

/** A run whose events somebody publishes or follows. */
export interface RunRef extends Scope {
  runId: string;
}

/** One attempt of a run, as this worker executes it. */
export interface OpenRun extends RunRef {
  claimToken: string;
  /** 1 for the first. */
  attempt: number;
  /** Its events are kept for listeners that come later or on another replica. */
  recorded: boolean;
}

/**
 * Carries a run's events from the worker that executes it to whoever listens, on any replica.
 * What has been published is kept for a while, so that a listener may come late or come back.
 */
export interface EventBus {
  /** Starts to listen to the other replicas. */
  start(): Promise<void>;
  /** The executing side of one run. */
  open(run: OpenRun): RunPublisher;
  /**
   * The events after `afterId` (-1: all), as they come, until the run has ended or `signal` fires.
   * A slow reader holds nothing up and misses nothing. Events that the store has lost are skipped,
   * but not that a run has failed.
   */
  follow(run: RunRef, afterId: number, signal: AbortSignal): AsyncIterable<RunEvent>;
  /** Resolves when the run ended (true) or after `timeoutMs` (false): ask the store then. */
  ended(run: RunRef, timeoutMs: number, signal: AbortSignal): Promise<boolean>;
  /** Tells all replicas that runs wait in the queue. */
  announceQueued(): void;
  /** Tells the replica that executes a run that it was cancelled. */
  announceCancelled(runIds: string[]): void;
  /** Tells listeners of runs that ended without a worker. */
  announceEnded(runIds: string[]): void;
  onQueued(listener: () => void): void;
  onCancelled(listener: (runId: string) => void): void;
  close(): Promise<void>;
}

/** Publishes the events of one attempt of one run, in order. */
export interface RunPublisher {
  /** A promise comes back only while too much is buffered: wait for it before the next event. */
  publish(event: string, data: string): Promise<void> | undefined;
  /** Writes what is still buffered. Call it before the run's end is stored. */
  flush(): Promise<void>;
  /** Tells listeners that the run has ended. Call it after its end was stored. */
  end(): void;
}
