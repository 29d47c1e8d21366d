import { setTimeout as delay } from "node:timers/promises";

/** When a program counts as one that will not answer any more. */
export interface Patience {
  /** How often it is asked, and how long it may take to answer, in ms. */
  everyMs: number;
  /** So many unanswered probes in a row. */
  probes: number;
}

/**
 * Watches a program that may hang, e.g. in a loop of an agent's.
 *
 * Probes are counted, not the time: where the whole machine was stopped for a while, one is missed.
 *
 * @param answers Asks once; settles within `everyMs`.
 * @returns true once it was silent for too long; false when `signal` ends the watch.
 */
export async function fallsSilent(
  answers: () => Promise<boolean>,
  { everyMs, probes }: Patience,
  signal: AbortSignal,
): Promise<boolean> {
  for (let missed = 0; missed < probes; ) {
    const pause = delay(everyMs, true, { signal }).catch(() => false);
    const [hasAnswered] = await Promise.all([answers(), pause]);
    if (signal.aborted) return false;
    missed = hasAnswered ? 0 : missed + 1;
  }
  return true;
}
