import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../common/errors.ts";
import { MOST_DEATHS, type RestartPolicy } from "./restart-policy.ts";
import type { Service } from "./service.ts";

/** What the person at the keyboard is told. */
export interface KeepRunningEvents {
  died(service: Service, reason: string, pauseMs: number): void;
  back(service: Service, tookMs: number): void;
}

/**
 * Starts a service again whenever it dies, until `signal` says that we are stopping.
 *
 * @throws UserError once it died too often for `policy`.
 */
export async function keepRunning(
  service: Service,
  signal: AbortSignal,
  policy: RestartPolicy,
  events: KeepRunningEvents,
): Promise<void> {
  let upSince = performance.now();
  let reason = await service.death();
  let livedMs = performance.now() - upSince;
  while (!signal.aborted) {
    const pauseMs = policy.afterDeath(performance.now(), livedMs);
    if (pauseMs === undefined) throw givenUp(service, reason);
    events.died(service, reason, pauseMs);
    try {
      await delay(pauseMs, undefined, { signal });
      const began = performance.now();
      await service.start(() => {});
      upSince = performance.now();
      events.back(service, upSince - began);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UserError)) throw error;
      reason = error.message;
      livedMs = 0;
      continue;
    }
    reason = await service.death();
    livedMs = performance.now() - upSince;
  }
}

function givenUp(service: Service, reason: string): UserError {
  return new UserError(
    "keeps_dying",
    `${service.title} died ${MOST_DEATHS} times within a minute; last: ${reason}`,
    `Its log says why: ${service.logFile}`,
  );
}
