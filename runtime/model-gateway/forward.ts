import { randomUUID } from "node:crypto";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { isSpanContextValid, type Span, SpanStatusCode } from "@opentelemetry/api";
import type { Context } from "hono";
import { HttpError } from "../common/errors.ts";
import { ASSERTION_HEADER } from "../common/identity.ts";
import type { Logger, RequestLogFields } from "../common/logging.ts";
import { AnswerMeter, estimateTokens } from "./answer-meter.ts";
import { type CallLife, watchCall } from "./call-life.ts";
import type { Caller, IdentifyCaller } from "./caller.ts";
import type { InferenceRequest } from "./inference-request.ts";
import { describeInference, SPAN_TEXT_LIMIT } from "./inference-span.ts";
import type { Provider } from "./providers/provider.ts";
import { type ModelRoute, routeOf } from "./providers/registry.ts";
import { readRefusal } from "./refusal.ts";
import { relayStream, relayWhole } from "./relay.ts";
import { readJsonObject } from "./request-body.ts";
import { responseHeaders } from "./response-headers.ts";
import { type OpenAnswer, timedOut, type Upstream } from "./upstream.ts";
import type { UsageRecorder } from "./usage-recorder.ts";

/** What a handler of the model gateway finds in its context. */
export interface Env {
  Bindings: HttpBindings;
  Variables: Partial<RequestLogFields> & {
    requestId: string;
    span?: Span;
    spanEndsLater?: boolean;
  };
}

export interface ForwardDependencies {
  logger: Logger;
  identify: IdentifyCaller;
  providers: readonly Provider[];
  upstream: Upstream;
  usage: UsageRecorder;
  /** Largest request body, in bytes. */
  bodyLimitBytes: number;
  /** Longest time to the first byte of an answer, over all tries, in ms. */
  deadlineMs: number;
}

/** An endpoint that a provider answers. */
export interface InferenceEndpoint {
  name: "chat/completions" | "embeddings";
  kind: "LLM" | "EMBEDDING";
  parse(body: Record<string, unknown>): InferenceRequest;
}

/** Logged for a client that left; nobody reads the answer. */
export const CLIENT_GONE = new Response(null, {
  status: 499,
  headers: RESPONSE_ALREADY_SENT.headers,
});

interface Exchange {
  c: Context<Env>;
  caller: Caller;
  request: InferenceRequest;
  route: ModelRoute;
  body: Buffer;
  life: CallLife;
  meter: AnswerMeter;
}

/** Takes a call from the client to the provider and the answer back, and notes what it cost. */
export async function forward(
  c: Context<Env>,
  deps: ForwardDependencies,
  endpoint: InferenceEndpoint,
): Promise<Response> {
  const started = performance.now();
  const caller = await deps.identify(c.req.header("authorization"), c.req.header(ASSERTION_HEADER));
  c.set("tenant", caller.tenant);
  if (caller.agent !== null) c.set("graphId", caller.agent);
  const request = endpoint.parse(await readJsonObject(c.env.incoming, deps.bodyLimitBytes));
  const route = routeOf(deps.providers, request.model, endpoint.name);
  const body = request.bodyFor(route.model);
  const meter = new AnswerMeter(c.get("span")?.isRecording() ? SPAN_TEXT_LIMIT : 0);
  const life = watchCall(c.env.outgoing, deps.deadlineMs);
  const exchange: Exchange = { c, caller, request, route, body, life, meter };
  let status = 500;
  try {
    const outcome = await converse(exchange, deps, endpoint);
    status = outcome.status;
    return outcome.response;
  } catch (error) {
    if (life.givenUp() === "client-gone") {
      status = 499;
      return CLIENT_GONE;
    }
    const failure = life.givenUp() === "deadline" ? timedOut(route.provider) : error;
    if (failure instanceof HttpError) status = failure.status;
    throw failure;
  } finally {
    life.end();
    note(exchange, deps.usage, endpoint, status, performance.now() - started);
  }
}

async function converse(
  { c, request, route, body, life, meter }: Exchange,
  { upstream, logger }: ForwardDependencies,
  endpoint: InferenceEndpoint,
): Promise<{ response: Response; status: number }> {
  const { provider } = route;
  const requestId = c.get("requestId");
  const answer = await upstream.open({ provider, endpoint: endpoint.name, body, life, requestId });
  const headers = responseHeaders(answer.headers, provider.secrets, requestId);
  if (answer.status >= 400) return refuse(answer, provider, headers, life.signal);
  const relay = {
    answer,
    outgoing: c.env.outgoing,
    headers,
    meter,
    life,
    providerName: provider.name,
  };
  const failure =
    formatOf(answer, provider) === "stream"
      ? await relayStream({ ...relay, keepsUsage: request.keepsUsage })
      : await relayWhole(relay);
  if (failure === undefined) return { response: RESPONSE_ALREADY_SENT, status: answer.status };
  logger.warn({ request_id: requestId, provider: provider.name }, failure.message);
  c.get("span")?.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
  return { response: RESPONSE_ALREADY_SENT, status: failure.status };
}

/** A web page in place of an answer mostly means a wrong base URL. */
function formatOf(answer: OpenAnswer, provider: Provider): "stream" | "whole" {
  const type = answer.headers["content-type"] ?? "application/json";
  const plain = (answer.headers["content-encoding"] ?? "identity") === "identity";
  if (plain && type.startsWith("text/event-stream")) return "stream";
  if (plain && type.startsWith("application/json")) return "whole";
  void answer.rest.return?.();
  throw new HttpError(
    502,
    "upstream_protocol",
    `The provider ${provider.name} did not answer as the OpenAI wire does. Is its base URL right?`,
  );
}

async function refuse(
  answer: OpenAnswer,
  { name, secrets }: Provider,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<{ response: Response; status: number }> {
  const body = await readRefusal(answer, name, secrets, signal);
  const response = new Response(body, {
    status: answer.status,
    headers: { ...headers, "content-type": "application/json" },
  });
  return { response, status: answer.status };
}

function note(
  { c, caller, request, route, body, meter }: Exchange,
  recorder: UsageRecorder,
  endpoint: InferenceEndpoint,
  status: number,
  durationMs: number,
): void {
  // A provider bills what it answered, not what it refused or never got.
  const billed =
    meter.usage === undefined && (status < 300 || status === 499 || meter.textBytes > 0);
  const span = c.get("span");
  const context = span?.spanContext();
  const usage = {
    id: randomUUID(),
    ...caller,
    provider: route.provider.name,
    model: route.model,
    input_tokens: meter.usage?.input ?? (billed ? estimateTokens(request.inputBytes()) : 0),
    output_tokens: meter.usage?.output ?? (billed ? estimateTokens(meter.textBytes) : 0),
    estimated: billed,
    status,
    streamed: request.stream,
    duration_ms: Math.round(durationMs),
    request_id: c.get("requestId"),
    trace_id: context !== undefined && isSpanContextValid(context) ? context.traceId : null,
    created_at: new Date(Date.now() - durationMs).toISOString(),
  };
  recorder.record(usage);
  if (span?.isRecording()) {
    const input = body.toString("utf8", 0, SPAN_TEXT_LIMIT);
    describeInference(span, usage, { kind: endpoint.kind, input, output: meter.output });
  }
}
