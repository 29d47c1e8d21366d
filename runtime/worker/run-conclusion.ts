import pg from "pg";
import type { Logger } from "../common/logging.ts";
import { isConnectionLoss } from "../common/postgres.ts";
import type { Checkpointer } from "./checkpointer.ts";
import type { EventBus, RunPublisher } from "./event-bus.ts";
import type { ClaimedRun, RunEnding } from "./run.ts";
import type { RunClaims } from "./run-claims.ts";
import { type Ending, failure, stopped } from "./run-ending.ts";
import { noOutcome } from "./run-graph.ts";

/** What an execution came to: the run's output as JSON, if it ended here and now. */
export interface Conclusion {
  output: string | undefined;
  /** Further runs of its thread wait. */
  queued: boolean;
  /** Why it was not stored as it ended. */
  problem?: unknown;
}

/** It goes on elsewhere, or its end is somebody else's to tell. */
export const NOTHING: Conclusion = { output: undefined, queued: false };

interface ConclusionDeps {
  claims: RunClaims;
  bus: EventBus;
  logger: Logger;
}

/**
 * Stores how an execution ended, and its last checkpoints and events before that.
 *
 * @throws where that can't be stored: the lease has to run out.
 */
export async function conclude(
  run: ClaimedRun,
  ending: Ending,
  checkpointer: Checkpointer,
  publisher: RunPublisher,
  { claims, bus, logger }: ConclusionDeps,
): Promise<Conclusion> {
  const stored = await settle(run, ending, checkpointer, logger);
  if (typeof stored === "object" && stored.error !== null) {
    await publisher.publish("error", stored.error);
  }
  await publisher.flush();
  if (stored === "lease lost") return NOTHING;
  if (stored === "worker fails") {
    await claims.abandon(run);
    return NOTHING;
  }
  if (stored === "worker stops") {
    await claims.release(run);
    bus.announceQueued();
    return NOTHING;
  }
  if (stored === "rollback") {
    await claims.rollBack(run);
    return { output: "{}", queued: true };
  }
  return await finish(run, stored, publisher, { claims, logger });
}

async function finish(
  run: ClaimedRun,
  ending: RunEnding,
  publisher: RunPublisher,
  { claims, logger }: Pick<ConclusionDeps, "claims" | "logger">,
): Promise<Conclusion> {
  let stored = ending;
  let problem: unknown;
  const result = await claims.finish(run, stored).catch(async (error: unknown) => {
    if (!(error instanceof pg.DatabaseError) || isConnectionLoss(error)) throw error;
    // The database does not take what came of it, and never will: that is how the run ends.
    logger.error({ run_id: run.runId, err: error }, "a run's end was refused");
    problem = error;
    stored = failure(new Error("What came of the run could not be stored."), noOutcome());
    await publisher.publish("error", stored.error ?? "{}");
    await publisher.flush();
    return claims.finish(run, stored);
  });
  if (result === "lost") return NOTHING;
  if (result === "rolled back") return { output: "{}", queued: true };
  return { output: stored.output, queued: result === "queued", problem };
}

/** Writes or forgets the last checkpoints, as the ending demands. */
async function settle(
  run: ClaimedRun,
  ending: Ending,
  checkpointer: Checkpointer,
  logger: Logger,
): Promise<Ending> {
  const isLeft = ending === "worker stops" || ending === "worker fails";
  const isKept = isLeft || (typeof ending === "object" && !run.ephemeral);
  if (!isKept) {
    checkpointer.discard();
    if (ending !== "rollback" || !run.ephemeral) return ending;
    return stopped(noOutcome());
  }
  try {
    await checkpointer.flush();
    return ending;
  } catch (error) {
    checkpointer.discard();
    logger.warn({ run_id: run.runId, err: error }, "last checkpoints not written");
    // A failure is one all the same. Anything else is done again once the lease is over.
    return typeof ending === "object" && ending.error !== null ? ending : "lease lost";
  }
}
