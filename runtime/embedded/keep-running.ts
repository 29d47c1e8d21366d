import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../common/errors.ts";
import { MOST_DEATHS, RestartHistory } from "./restart-history.ts";
import type { Service } from "./service.ts";

/** What the person at the keyboard is told. */
export interface KeepRunningEvents {
  died(service: Service, reason: string, pauseMs: number): void;
  back(service: Service, tookMs: number): void;
}

/**
 * Starts a service again whenever it dies, until `signal` says that we are stopping.
 *
 * @throws UserError once it died too often.
 */
export async function keepRunning(
  service: Service,
  signal: AbortSignal,
  events: KeepRunningEvents,
): Promise<void> {
  const history = new RestartHistory();
  let reason = await service.death();
  while (!signal.aborted) {
    const pauseMs = history.afterDeath(performance.now());
    if (pauseMs === undefined) throw givenUp(service, reason);
    events.died(service, reason, pauseMs);
    try {
      await delay(pauseMs, undefined, { signal });
      const began = performance.now();
      await service.start(() => {});
      events.back(service, performance.now() - began);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UserError)) throw error;
      reason = error.message;
      continue;
    }
    reason = await service.death();
  }
}

function givenUp(service: Service, reason: string): UserError {
  return new UserError(
    "keeps_dying",
    `${service.title} died ${MOST_DEATHS} times within a minute; last: ${reason}`,
    `Its log says why: ${service.logFile}`,
  );
}
