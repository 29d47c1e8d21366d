import { AsyncLocalStorage } from "node:async_hooks";
import { type Span, type Context as TraceContext, trace } from "@opentelemetry/api";
import { ASSERTION_HEADER } from "../common/identity.ts";
import { traceHeaders } from "../common/telemetry.ts";

/** On whose behalf an agent's code executes: its stray exceptions end this, and nothing else. */
export type AgentContext = RunContext | RequestContext;

/** A run, and what calls made on its behalf have to carry. */
export interface RunContext {
  kind: "run";
  runId: string;
  graphId: string;
  assertion: string;
  trace: TraceContext;
  /** Model calls under way, the latest last: the parent of the model gateway's span. */
  modelSpans: Set<Span>;
  /** Ends the run with this error; nothing once it has ended. */
  fail(error: Error): void;
}

/** A request that looks at an agent's graph beside any run. */
export interface RequestContext {
  kind: "request";
  graphId: string;
  /** Ends the request with this error; nothing once it is over. */
  fail(error: Error): void;
}

const current = new AsyncLocalStorage<AgentContext>();

/** On whose behalf the code at hand executes, also from its timers and event listeners. */
export function currentContext(): AgentContext | undefined {
  return current.getStore();
}

/** Runs `work`, and all that it starts, within a context. */
export function within<T>(context: AgentContext, work: () => Promise<T>): Promise<T> {
  return current.run(context, work);
}

/**
 * Makes every call of agent code to the platform's gateways carry its run's identity and trace, so
 * that usage is booked on the right tenant and the trace stays whole. Other calls are untouched.
 * Has to be called before any graph is loaded: clients remember the fetch they find.
 */
export function instrumentFetch(platformUrls: readonly string[]): void {
  const original = globalThis.fetch;
  globalThis.fetch = async (input, init) => {
    const run = current.getStore();
    const url = input instanceof Request ? input.url : String(input);
    if (run?.kind !== "run" || !platformUrls.some((prefix) => url.startsWith(prefix))) {
      return original(input, init);
    }
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : {}));
    headers.set(ASSERTION_HEADER, run.assertion);
    const parent = [...run.modelSpans].at(-1);
    const context = parent === undefined ? run.trace : trace.setSpan(run.trace, parent);
    for (const [name, value] of Object.entries(traceHeaders(context))) headers.set(name, value);
    return original(input, { ...init, headers });
  };
}
