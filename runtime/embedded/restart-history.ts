const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
const WINDOW_MS = 60_000;

/** As many deaths within a minute as make further starts pointless. */
export const MOST_DEATHS = 5;

/** Decides when a service that died is started again, and when that is given up. */
export class RestartHistory {
  #deaths: number[] = [];

  /**
   * Takes note of a death.
   *
   * @param nowMs A monotonic time, in ms.
   * @returns how long to wait before the next start, in ms; undefined: give up.
   */
  afterDeath(nowMs: number): number | undefined {
    this.#deaths = [...this.#deaths.filter((at) => nowMs - at < WINDOW_MS), nowMs];
    if (this.#deaths.length >= MOST_DEATHS) return undefined;
    return Math.min(FIRST_PAUSE_MS * 2 ** (this.#deaths.length - 1), LONGEST_PAUSE_MS);
  }
}
