import {
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Context as TraceContext,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type SpanExporter,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import type { Context, MiddlewareHandler } from "hono";
import type { Logger } from "./logging.ts";

/** The project under which the tracing UI files our traces (OpenInference resource attribute). */
export const PROJECT = "Platform";
export const PROJECT_ATTRIBUTE = "openinference.project.name";

/** OpenInference attribute names that every program uses. */
export const SPAN_KIND = "openinference.span.kind";
export const INPUT_VALUE = "input.value";
export const INPUT_MIME_TYPE = "input.mime_type";
export const OUTPUT_VALUE = "output.value";
export const OUTPUT_MIME_TYPE = "output.mime_type";
export const TENANT = "platform.tenant";
export const GRAPH_ID = "platform.graph_id";
export const RUN_ID = "platform.run_id";
export const SESSION_ID = "session.id";
/** The trace that a caller from outside said its call was part of; ours is linked to it. */
export const CALLER_TRACE_ID = "platform.caller.trace_id";

export interface Telemetry {
  tracer: Tracer;
  /** Sends what is still buffered. */
  shutdown(): Promise<void>;
}

export interface TelemetryOptions {
  service: string;
  logger: Logger;
  /** `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`; the exporter reads it. */
  otlpEndpoint: string | undefined;
  /** Where spans are kept for the console, if they are. */
  spanStoreUrl: string | undefined;
}

/**
 * Starts tracing: OTLP by the standard `OTEL_*` variables, and the span store of the console.
 * With neither, spans cost nothing and go nowhere.
 */
export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const exporters: SpanExporter[] = [];
  if (options.otlpEndpoint !== undefined) {
    // Loaded only where it is used: protobuf is a tenth of an idle program's memory.
    const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-proto");
    exporters.push(new OTLPTraceExporter());
  }
  if (options.spanStoreUrl !== undefined) {
    const { createSpanStoreExporter } = await import("./span-store.ts");
    exporters.push(createSpanStoreExporter(options.spanStoreUrl, options.service, options.logger));
  }
  if (exporters.length === 0) {
    return { tracer: trace.getTracer(options.service), shutdown: async () => {} };
  }
  const spanProcessors: SpanProcessor[] = exporters.map(
    (exporter) => new BatchSpanProcessor(exporter, { scheduledDelayMillis: 500 }),
  );
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      "service.name": options.service,
      [PROJECT_ATTRIBUTE]: PROJECT,
    }),
    spanProcessors,
  });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  return { tracer: provider.getTracer(options.service), shutdown: () => provider.shutdown() };
}

/** The trace headers (`traceparent`, `tracestate`) to send along with a call. */
export function traceHeaders(from: TraceContext = context.active()): Record<string, string> {
  const headers: Record<string, string> = {};
  propagation.inject(from, headers);
  return headers;
}

/** The context that a `traceparent` (and `tracestate`) describes. */
export function contextOf(headers: Record<string, string>): TraceContext {
  return propagation.extract(context.active(), headers);
}

/** Ends a span with an error: its message, and the status that the tracing UI shows in red. */
export function failSpan(span: Span, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  span.setStatus({ code: SpanStatusCode.ERROR, message });
  span.end();
}

/** Whether a call is an inner hop: its sender proved to be one of our programs. */
export type IsInnerHop = (c: Context) => boolean | Promise<boolean>;

/** What a program needs that makes a span a request behind the front door. */
export interface Tracing {
  tracer: Tracer;
  isInnerHop: IsInnerHop;
}

/** For the doors that the public reaches. */
const nobody: IsInnerHop = () => false;

/**
 * Makes a server span a request, left to the handler as `c.get("span")` for more attributes. A
 * streamed answer's span ends with its headers; a handler that wants it to end with the body calls
 * `c.set("spanEndsLater", true)` and ends it itself.
 *
 * Only an inner hop continues the trace that its headers name. Anyone else begins a trace of ours,
 * by our own sampling, that is linked to the caller's: a stranger must neither switch tracing off
 * nor put spans into another's trace (W3C Trace Context, 7: "Restarting the trace").
 *
 * @param kind OpenInference span kind, e.g. `CHAIN` or `LLM`.
 */
export function traced(
  tracer: Tracer,
  kind: string,
  isInnerHop: IsInnerHop = nobody,
): MiddlewareHandler<{ Variables: { span?: Span; spanEndsLater?: boolean } }> {
  return async (c, next) => {
    const named = contextOf({
      traceparent: c.req.header("traceparent") ?? "",
      tracestate: c.req.header("tracestate") ?? "",
    });
    const caller = trace.getSpanContext(named);
    const continues = caller !== undefined && (await isInnerHop(c));
    const stranger = continues ? undefined : caller;
    const parent = continues ? named : ROOT_CONTEXT;
    const span = tracer.startSpan(
      `${c.req.method} ${c.req.path}`,
      {
        kind: SpanKind.SERVER,
        attributes: {
          [SPAN_KIND]: kind,
          "http.request.method": c.req.method,
          "url.path": c.req.path,
          ...(stranger && { [CALLER_TRACE_ID]: stranger.traceId }),
        },
        links: stranger ? [{ context: withoutState(stranger) }] : [],
      },
      parent,
    );
    c.set("span", span);
    await context.with(trace.setSpan(parent, span), next);
    span.setAttribute("http.response.status_code", c.res.status);
    if (c.res.status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    if (!c.get("spanEndsLater")) span.end();
  };
}

/** What a stranger's other tools keep in `tracestate` is not ours to export. */
function withoutState({ traceId, spanId, traceFlags }: SpanContext): SpanContext {
  return { traceId, spanId, traceFlags, isRemote: true };
}
