import { setTimeout as delay } from "node:timers/promises";
import { createBackoff } from "../../common/kubernetes/backoff.ts";
import { type KubernetesClient, KubernetesError } from "../../common/kubernetes/client.ts";
import type { Logger } from "../../common/logging.ts";
import type { StatusWrite } from "./status-plan.ts";

export interface StatusWriterOptions {
  client: KubernetesClient;
  logger: Logger;
  /** Between 0 and 1: so that two replicas do not write at the same moment. */
  random?: () => number;
  /** The clock, in ms. */
  now?: () => number;
  /** What to wait for before each write. */
  pause?: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

export interface StatusWriter {
  /** Replaces what is to be written. What is no longer in it is not written. */
  plan(writes: readonly StatusWrite[]): void;
  stop(): void;
}

const JITTER_MS = 80;
/** An object whose status is written more often than this many times a minute is fought over. */
const WRITES_A_MINUTE = 6;
const MINUTE_MS = 60_000;
const LONGEST_PAUSE_MS = 30_000;
const standardPause = (ms: number, signal: AbortSignal) => delay(ms, undefined, { signal });
const RETRY_MS = 1_000;

/**
 * Writes statuses, each from the version of the object that it was found from: where another
 * replica was faster, the server refuses ours and the watch brings what there is now.
 */
export function createStatusWriter(options: StatusWriterOptions): StatusWriter {
  const { client, logger, random = Math.random, now = Date.now, pause = standardPause } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  let wanted = new Map<string, StatusWrite>();
  /** The version of each object from which there is nothing more to write. */
  const settled = new Map<string, string>();
  const writeTimes = new Map<string, number[]>();
  const busy = new Set<string>();

  async function write(path: string): Promise<void> {
    const backoff = createBackoff(RETRY_MS, LONGEST_PAUSE_MS, random);
    busy.add(path);
    try {
      for (let pauseMs = patienceMs(path); ; ) {
        await pause(pauseMs + JITTER_MS * random(), signal);
        const current = wanted.get(path);
        if (current === undefined || settled.get(path) === current.resourceVersion) return;
        pauseMs = (await send(current)) ? patienceMs(path) : backoff.next();
      }
    } finally {
      busy.delete(path);
    }
  }

  /** @returns whether nothing more is to be done for this version of the object. */
  async function send({ path, resourceVersion, status }: StatusWrite): Promise<boolean> {
    try {
      await client.mergePatch(path, { metadata: { resourceVersion }, status }, signal);
      writeTimes.set(path, [...recent(path), now()]);
    } catch (error) {
      // It changed or went meanwhile: the watch tells, and the plan is made anew.
      const isOutdated =
        error instanceof KubernetesError && (error.status === 409 || error.status === 404);
      if (!isOutdated) {
        const reason = error instanceof Error ? error.message : String(error);
        logger.warn({ path, error: reason }, "a status was not written, and is tried again");
        return false;
      }
    }
    settled.set(path, resourceVersion);
    return true;
  }

  function recent(path: string): number[] {
    return (writeTimes.get(path) ?? []).filter((time) => now() - time < MINUTE_MS);
  }

  /** Someone who always writes another status than ours is let win for longer and longer. */
  function patienceMs(path: string): number {
    const excess = recent(path).length - WRITES_A_MINUTE;
    return excess < 0 ? 0 : Math.min(1_000 * 2 ** excess, LONGEST_PAUSE_MS);
  }

  return {
    plan(writes) {
      wanted = new Map(writes.map((one) => [one.path, one]));
      for (const path of settled.keys()) if (!wanted.has(path)) settled.delete(path);
      for (const path of writeTimes.keys()) if (recent(path).length === 0) writeTimes.delete(path);
      for (const { path, resourceVersion } of writes) {
        if (busy.has(path) || settled.get(path) === resourceVersion) continue;
        write(path).catch((error: unknown) => {
          if (!signal.aborted) logger.error({ path, err: error }, "unexpected");
        });
      }
    },
    stop: () => stopping.abort(),
  };
}
