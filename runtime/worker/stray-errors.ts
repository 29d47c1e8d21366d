import type { Logger } from "../common/logging.ts";
import { currentRun } from "./run-context.ts";
import { wireError } from "./wire-json.ts";

/**
 * Deals with what is thrown where nobody waits for it: in a timer, by an event listener, in a promise
 * that was forgotten.
 *
 * - An exception of a run's own code ends that run with this error, and none beside it. Node knows by
 *   the asynchronous context whose code it was; whether it is still under way does not matter.
 * - An exception of anything else leaves a process of which nobody knows what works: `leave` has to
 *   give back what is under way and end it.
 * - A rejected promise, e.g. one that a cancelled run left behind, broke nothing: it is logged.
 */
export function handleStrayErrors(logger: Logger, leave: () => void): void {
  process.on("unhandledRejection", (error) => {
    logger.error({ ...runFields(), err: error }, "a rejected promise was not handled");
  });
  process.on("uncaughtException", (error: unknown) => {
    const run = currentRun();
    if (run === undefined) {
      logger.fatal({ err: error }, "an exception outside of any run: the worker leaves");
      leave();
      return;
    }
    logger.error({ ...runFields(), err: error }, "a run's code threw where nobody waits for it");
    // Anything may be thrown; what ends a run is an error.
    run.fail(error instanceof Error ? error : new Error(wireError(error).message));
  });
}

function runFields(): object {
  const run = currentRun();
  return run === undefined ? {} : { run_id: run.runId, graph_id: run.graphId };
}
