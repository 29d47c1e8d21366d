import type { RunEnding } from "./run.ts";
import type { GraphOutcome } from "./run-graph.ts";
import { toWireJson, wireError } from "./wire-json.ts";

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
