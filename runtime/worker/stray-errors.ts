import type { Logger } from "../common/logging.ts";
import { currentContext } from "./agent-context.ts";
import { wireError } from "./wire-json.ts";

/**
 * Deals with what is thrown where nobody waits for it: in a timer, by an event listener, in a promise
 * that was forgotten.
 *
 * - An exception of an agent's code ends the run it executed for with this error, or the request, and
 *   none beside it. Node knows by the asynchronous context whose code it was; whether that is still
 *   under way does not matter.
 * - An exception of anything else leaves a process of which nobody knows what works: `leave` has to
 *   give back what is under way and end it.
 * - A rejected promise, e.g. one that a cancelled run left behind, broke nothing: it is logged.
 */
export function handleStrayErrors(logger: Logger, leave: () => void): void {
  process.on("unhandledRejection", (error) => {
    logger.error({ ...contextFields(), err: error }, "a rejected promise was not handled");
  });
  process.on("uncaughtException", (error: unknown) => {
    const context = currentContext();
    if (context === undefined) {
      logger.fatal({ err: error }, "an exception outside of any run or request: the worker leaves");
      leave();
      return;
    }
    logger.error(
      { ...contextFields(), err: error },
      "an agent's code threw where nobody waits for it",
    );
    // Anything may be thrown; what ends a run is an error.
    context.fail(error instanceof Error ? error : new Error(wireError(error).message));
  });
}

function contextFields(): object {
  const context = currentContext();
  if (context === undefined) return {};
  const { graphId: graph_id } = context;
  return context.kind === "run" ? { run_id: context.runId, graph_id } : { graph_id };
}
