import { setTimeout as delay } from "node:timers/promises";

/** How often a condition is looked at, in ms. */
const INTERVAL_MS = 25;

/** What is called while a start takes its time, with the ms waited so far. */
export type OnWaiting = (what: string, waitedMs: number) => void;

/**
 * Looks at a condition until it holds.
 *
 * @returns the condition's first value that is not undefined; undefined once `patienceMs` are over.
 */
export async function until<T>(
  condition: () => T | undefined | Promise<T | undefined>,
  patienceMs: number,
  onWaiting: (waitedMs: number) => void = () => {},
): Promise<T | undefined> {
  const started = performance.now();
  for (;;) {
    const value = await condition();
    if (value !== undefined) return value;
    const waitedMs = performance.now() - started;
    if (waitedMs > patienceMs) return undefined;
    onWaiting(waitedMs);
    await delay(INTERVAL_MS);
  }
}
