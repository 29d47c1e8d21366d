/** How long to wait between tries: longer each time, never the same for two programs. */
export interface Backoff {
  /** The next pause in ms. */
  next(): number;
  /** What was tried has worked. */
  reset(): void;
}

/** @param random Between 0 and 1: each pause is half to all of its step. */
export function createBackoff(firstMs: number, longestMs: number, random = Math.random): Backoff {
  let stepMs = firstMs;
  return {
    next() {
      const pauseMs = stepMs * (0.5 + random() / 2);
      stepMs = Math.min(stepMs * 2, longestMs);
      return pauseMs;
    },
    reset() {
      stepMs = firstMs;
    },
  };
}
