const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
/** For what is never given up: long enough to cost nothing, short enough to wait for. */
const LONGEST_PATIENT_PAUSE_MS = 30_000;
const WINDOW_MS = 60_000;

/** As many deaths within a minute as make further starts pointless. */
export const MOST_DEATHS = 5;

/** Decides when a service that died is started again, and when that is given up. */
export interface RestartPolicy {
  /**
   * Takes note of a death.
   *
   * @param nowMs A monotonic time, in ms.
   * @param livedMs How long the service had been up; 0 where it did not come up.
   * @returns how long to wait before the next start, in ms; undefined: give up.
   */
  afterDeath(nowMs: number, livedMs: number): number | undefined;
}

/** For the platform's own programs: one that keeps dying is a bug, or a machine that is not well. */
export class GivesUp implements RestartPolicy {
  #deaths: number[] = [];

  afterDeath(nowMs: number): number | undefined {
    this.#deaths = [...this.#deaths.filter((at) => nowMs - at < WINDOW_MS), nowMs];
    if (this.#deaths.length >= MOST_DEATHS) return undefined;
    return pause(this.#deaths.length, LONGEST_PAUSE_MS);
  }
}

/**
 * For what executes agents' code: one agent that ends its process must not end the platform, so that
 * it is started again for ever, each time later, until it has been up for a minute.
 */
export class NeverGivesUp implements RestartPolicy {
  #deaths = 0;

  afterDeath(_nowMs: number, livedMs: number): number {
    this.#deaths = livedMs >= WINDOW_MS ? 1 : this.#deaths + 1;
    return pause(this.#deaths, LONGEST_PATIENT_PAUSE_MS);
  }
}

function pause(deaths: number, longestMs: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (deaths - 1), longestMs);
}
