import { HttpError } from "../common/errors.ts";
import { LeaseLost } from "./checkpointer.ts";
import type { CancelAction, RunEnding } from "./run.ts";
import type { GraphOutcome } from "./run-graph.ts";
import { toWireJson, wireError } from "./wire-json.ts";

/**
 * Why a graph was told to stop. A worker that stops gives its runs back as if it had never begun; one
 * that fails leaves them to be judged as those of a worker that is gone.
 */
export type StopReason = CancelAction | "lease lost" | "worker stops" | "worker fails";

/** How an execution ended: for good, or without an end of the run. */
export type Ending = RunEnding | Exclude<StopReason, "interrupt">;

/**
 * What an execution that did not come to its end means for the run.
 *
 * @param signal Its reason is a {@link StopReason}, or an error: why the checkpointer failed, or what
 *   the graph's code threw where nobody waits for it.
 */
export function endingOf(error: unknown, signal: AbortSignal, outcome: GraphOutcome): Ending {
  // Not what LangGraph makes of being stopped.
  const cause: unknown = signal.aborted ? signal.reason : error;
  if (cause instanceof LeaseLost) return "lease lost";
  // The database was away for longer than anyone waits: the lease runs out and the run goes on.
  if (cause instanceof HttpError && cause.status === 503) return "lease lost";
  if (!signal.aborted || typeof cause !== "string") return failure(cause, outcome);
  const reason = cause as StopReason;
  if (reason !== "interrupt") return reason;
  try {
    return stopped(outcome);
  } catch (unserialisable) {
    return failure(unserialisable, outcome);
  }
}

/** The graph came to its end, or to an interrupt. */
export function success(outcome: GraphOutcome): RunEnding {
  const values = toWireJson(outcome.values);
  const { interrupts } = outcome;
  return {
    status: "success",
    output:
      interrupts === undefined
        ? values
        : toWireJson({ ...outcome.values, __interrupt__: interrupts }),
    threadStatus: interrupts === undefined ? "idle" : "interrupted",
    threadValues: values,
    interrupts: toWireJson(outcome.interruptsByTask),
    error: null,
  };
}

/** Somebody cancelled the run. */
export function stopped(outcome: GraphOutcome): RunEnding {
  return {
    status: "interrupted",
    output: toWireJson(outcome.values),
    threadStatus: "interrupted",
    threadValues: valuesSoFar(outcome),
    interrupts: "{}",
    error: null,
  };
}

/** The graph threw, or came to something that can't be told as JSON. */
export function failure(error: unknown, outcome: GraphOutcome): RunEnding {
  const reported = wireError(error);
  return {
    status: "error",
    output: JSON.stringify({ __error__: reported }),
    threadStatus: "error",
    threadValues: valuesSoFar(outcome),
    interrupts: "{}",
    error: JSON.stringify(reported),
  };
}

/** What the graph wrote before it stopped; null if that was nothing, or nothing that is JSON. */
function valuesSoFar({ values }: GraphOutcome): string | null {
  if (Object.keys(values).length === 0) return null;
  try {
    return toWireJson(values);
  } catch {
    // The run's own error tells what is wrong with them.
    return null;
  }
}
