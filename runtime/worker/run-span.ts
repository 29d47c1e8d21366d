import { type Span, SpanKind, type Tracer } from "@opentelemetry/api";
import {
  type contextOf,
  failSpan,
  GRAPH_ID,
  RUN_ID,
  SESSION_ID,
  SPAN_KIND,
  TENANT,
} from "../common/telemetry.ts";
import type { ClaimedRun, RunEnding } from "./run.ts";
import { inputAttributes, outputAttributes } from "./run-spans.ts";
import { wireError } from "./wire-json.ts";

/** The span of one attempt of a run, within the trace of who asked for it. */
export function startRunSpan(
  tracer: Tracer,
  run: ClaimedRun,
  parent: ReturnType<typeof contextOf>,
): Span {
  const span = tracer.startSpan(
    `run ${run.graphId}`,
    {
      kind: SpanKind.INTERNAL,
      attributes: {
        [SPAN_KIND]: "AGENT",
        [TENANT]: run.tenant,
        [GRAPH_ID]: run.graphId,
        [RUN_ID]: run.runId,
        [SESSION_ID]: run.threadId,
        "platform.attempt": run.attempt,
      },
    },
    parent,
  );
  if (span.isRecording()) {
    span.setAttributes(inputAttributes(run.kwargs.input ?? run.kwargs.command ?? {}));
  }
  return span;
}

/**
 * @param ending How the run ended, if it ended with this attempt.
 * @param problem Why that could not be stored, if it could not.
 */
export function endRunSpan(span: Span, ending: RunEnding | undefined, problem?: unknown): void {
  if (!span.isRecording()) return;
  if (ending !== undefined) span.setAttributes(outputAttributes(JSON.parse(ending.output)));
  const failure = problem === undefined ? ending?.error : JSON.stringify(wireError(problem));
  if (failure == null) span.end();
  else failSpan(span, new Error(JSON.parse(failure).message));
}
