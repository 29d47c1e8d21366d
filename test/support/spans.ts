import { randomBytes } from "node:crypto";
import { context, propagation } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace-base";

/** What a test says of a span; the rest is made up. */
export interface SpanSketch {
  traceId: string;
  spanId?: string;
  parentSpanId?: string;
  name?: string;
  /** ms since 1970. */
  startedAt?: number;
  durationMs?: number;
  error?: string;
  attributes?: ReadableSpan["attributes"];
}

export const newTraceId = () => randomBytes(16).toString("hex");
export const newSpanId = () => randomBytes(8).toString("hex");

/** Hands spans to an exporter as a program's tracer does, and waits until they are kept. */
export function exportSpans(exporter: SpanExporter, sketches: SpanSketch[]): Promise<void> {
  return new Promise((resolve, reject) => {
    exporter.export(sketches.map(readableSpan), ({ code, error }) => {
      if (code === 0) resolve();
      else reject(error ?? new Error("the spans were not kept"));
    });
  });
}

/**
 * Carries traces from call to call, as a program does that traces.
 *
 * @returns what undoes it. Another test file may have set it for good, which is left to it.
 */
export function carryTraces(): () => void {
  const undo: (() => void)[] = [];
  if (context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())) {
    undo.push(() => context.disable());
  }
  if (propagation.setGlobalPropagator(new W3CTraceContextPropagator())) {
    undo.push(() => propagation.disable());
  }
  return () => {
    for (const step of undo) step();
  };
}

function readableSpan(sketch: SpanSketch): ReadableSpan {
  const { traceId, spanId = newSpanId(), parentSpanId } = sketch;
  const context = (id: string) => ({ traceId, spanId: id, traceFlags: 1 });
  const span: Partial<ReadableSpan> = {
    name: sketch.name ?? "span",
    spanContext: () => context(spanId),
    ...(parentSpanId !== undefined && { parentSpanContext: context(parentSpanId) }),
    startTime: hrTime(sketch.startedAt ?? Date.now()),
    duration: hrTime(sketch.durationMs ?? 1),
    status: sketch.error === undefined ? { code: 0 } : { code: 2, message: sketch.error },
    attributes: sketch.attributes ?? {},
  };
  return span as ReadableSpan;
}

function hrTime(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
