/** Failures that cost nothing: anyone may mistype. */
const FREE_FAILURES = 5;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
/** A failure is forgotten after this long without another one. */
const MEMORY_MS = 15 * 60_000;
/** Addresses kept in mind. Past that the one longest silent is forgotten. */
const ADDRESS_LIMIT = 10_000;

export interface SignInLimit {
  /** How long this address has to wait before its next try is looked at, in ms; 0 for not at all. */
  waitMs(address: string): number;
  failed(address: string): void;
  succeeded(address: string): void;
}

/**
 * Slows down guessing: after some failures an address waits, twice as long after each further one.
 *
 * @param now The clock, in ms.
 */
export function createSignInLimit(now: () => number): SignInLimit {
  const failures = new Map<string, { count: number; at: number }>();
  const known = (address: string) => {
    const entry = failures.get(address);
    return entry !== undefined && now() - entry.at < MEMORY_MS ? entry : undefined;
  };
  return {
    waitMs(address) {
      const entry = known(address);
      if (entry === undefined || entry.count < FREE_FAILURES) return 0;
      const pause = FIRST_PAUSE_MS * 2 ** (entry.count - FREE_FAILURES);
      return Math.max(0, entry.at + Math.min(pause, LONGEST_PAUSE_MS) - now());
    },
    failed(address) {
      const count = (known(address)?.count ?? 0) + 1;
      // Deleted first, so that the map stays in order of the last failure.
      failures.delete(address);
      failures.set(address, { count, at: now() });
      const [oldest] = failures.keys();
      if (failures.size > ADDRESS_LIMIT && oldest !== undefined) failures.delete(oldest);
    },
    succeeded(address) {
      failures.delete(address);
    },
  };
}
