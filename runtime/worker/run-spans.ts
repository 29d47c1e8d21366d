import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { Serialized } from "@langchain/core/load/serializable";
import type { BaseMessage } from "@langchain/core/messages";
import type { LLMResult } from "@langchain/core/outputs";
import { type Attributes, type Span, type Tracer, trace } from "@opentelemetry/api";
import {
  failSpan,
  GRAPH_ID,
  INPUT_MIME_TYPE,
  INPUT_VALUE,
  OUTPUT_MIME_TYPE,
  OUTPUT_VALUE,
  SPAN_KIND,
  TENANT,
} from "../common/telemetry.ts";
import type { RunContext } from "./agent-context.ts";
import { toWireJson } from "./wire-json.ts";

/** Inputs and outputs are cut to this, in characters: a trace is for looking at, not a store. */
const VALUE_LIMIT = 8_192;
const HIDDEN = "langsmith:hidden";

/**
 * Turns what LangChain reports of a run into spans with OpenInference attributes: a span a node,
 * a model call, a tool call, a retrieval. LangGraph's own plumbing is left out.
 */
export class RunSpans extends BaseCallbackHandler {
  override name = "platform-run-spans";
  override awaitHandlers = true;
  readonly #tracer: Tracer;
  readonly #run: RunContext;
  readonly #common: Attributes;
  readonly #spans = new Map<string, Span>();
  /** Hidden steps, by the visible step that their children belong to. */
  readonly #parents = new Map<string, string | undefined>();

  constructor(tracer: Tracer, run: RunContext, scope: { tenant: string; graphId: string }) {
    super();
    this.#tracer = tracer;
    this.#run = run;
    this.#common = { [TENANT]: scope.tenant, [GRAPH_ID]: scope.graphId };
  }

  override handleChainStart(
    _chain: Serialized,
    inputs: unknown,
    runId: string,
    // The order in which the library passes them, whatever its type calls them.
    parentRunId?: string,
    tags?: string[],
    metadata?: Record<string, unknown>,
    _runType?: string,
    runName?: string,
  ): void {
    // The graph itself is the run's own span; of what is inside, only nodes are worth a row.
    const isNode = metadata?.langgraph_node === runName;
    if (parentRunId === undefined || !isNode || tags?.includes(HIDDEN)) {
      this.#parents.set(runId, this.#visible(parentRunId));
      return;
    }
    this.#start(runId, parentRunId, runName ?? "chain", "CHAIN", inputs);
  }

  override handleChainEnd(outputs: unknown, runId: string): void {
    this.#end(runId, outputs);
  }

  override handleChainError(error: unknown, runId: string): void {
    this.#fail(runId, error);
  }

  override handleChatModelStart(
    model: Serialized,
    messages: BaseMessage[][],
    runId: string,
    parentRunId?: string,
    extra?: Record<string, unknown>,
    _tags?: string[],
    metadata?: Record<string, unknown>,
    runName?: string,
  ): void {
    const invocation = (extra?.invocation_params ?? {}) as { model?: string };
    const modelName = String(metadata?.ls_model_name ?? invocation.model ?? "");
    const name = runName ?? model.id.at(-1) ?? "model";
    const span = this.#start(runId, parentRunId, name, "LLM", messages.flat());
    span.setAttribute("llm.model_name", modelName);
    this.#run.modelSpans.add(span);
  }

  override handleLLMEnd(output: LLMResult, runId: string): void {
    const span = this.#spans.get(runId);
    const generation = output.generations[0]?.[0];
    const message =
      generation !== undefined && "message" in generation
        ? (generation.message as BaseMessage & { usage_metadata?: Usage })
        : undefined;
    const usage = message?.usage_metadata;
    if (usage !== undefined) {
      span?.setAttributes({
        "llm.token_count.prompt": usage.input_tokens,
        "llm.token_count.completion": usage.output_tokens,
        "llm.token_count.total": usage.total_tokens,
      });
    }
    if (span !== undefined) this.#run.modelSpans.delete(span);
    this.#end(runId, message ?? generation?.text);
  }

  override handleLLMError(error: unknown, runId: string): void {
    const span = this.#spans.get(runId);
    if (span !== undefined) this.#run.modelSpans.delete(span);
    this.#fail(runId, error);
  }

  override handleToolStart(
    tool: Serialized,
    input: string,
    runId: string,
    parentRunId?: string,
    _tags?: string[],
    _metadata?: Record<string, unknown>,
    runName?: string,
  ): void {
    const name = runName ?? tool.id.at(-1) ?? "tool";
    this.#start(runId, parentRunId, name, "TOOL", input).setAttribute("tool.name", name);
  }

  override handleToolEnd(output: unknown, runId: string): void {
    this.#end(runId, output);
  }

  override handleToolError(error: unknown, runId: string): void {
    this.#fail(runId, error);
  }

  override handleRetrieverStart(
    retriever: Serialized,
    query: string,
    runId: string,
    parentRunId?: string,
  ): void {
    this.#start(runId, parentRunId, retriever.id.at(-1) ?? "retriever", "RETRIEVER", query);
  }

  override handleRetrieverEnd(documents: unknown, runId: string): void {
    this.#end(runId, documents);
  }

  override handleRetrieverError(error: unknown, runId: string): void {
    this.#fail(runId, error);
  }

  /** Ends what a cancelled run left open. */
  endAll(): void {
    for (const span of this.#spans.values()) span.end();
    this.#spans.clear();
    this.#run.modelSpans.clear();
  }

  #start(
    runId: string,
    parentRunId: string | undefined,
    name: string,
    kind: string,
    input: unknown,
  ): Span {
    const parent = this.#spans.get(this.#visible(parentRunId) ?? "");
    const context = parent === undefined ? this.#run.trace : trace.setSpan(this.#run.trace, parent);
    const attributes = { ...this.#common, [SPAN_KIND]: kind, ...inputAttributes(input) };
    const span = this.#tracer.startSpan(name, { attributes }, context);
    this.#spans.set(runId, span);
    return span;
  }

  #visible(runId: string | undefined): string | undefined {
    if (runId === undefined || this.#spans.has(runId)) return runId;
    return this.#parents.get(runId);
  }

  #end(runId: string, output: unknown): void {
    const span = this.#spans.get(runId);
    if (span !== undefined) {
      span.setAttributes(outputAttributes(output));
      span.end();
    }
    this.#forget(runId);
  }

  #fail(runId: string, error: unknown): void {
    const span = this.#spans.get(runId);
    if (span !== undefined) failSpan(span, error);
    this.#forget(runId);
  }

  #forget(runId: string): void {
    this.#spans.delete(runId);
    this.#parents.delete(runId);
  }
}

interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
}

/** OpenInference's input attributes, cut to a size that a trace can bear. */
export function inputAttributes(value: unknown): Attributes {
  return { [INPUT_VALUE]: traceText(value), [INPUT_MIME_TYPE]: mimeType(value) };
}

/** OpenInference's output attributes, cut to a size that a trace can bear. */
export function outputAttributes(value: unknown): Attributes {
  return { [OUTPUT_VALUE]: traceText(value), [OUTPUT_MIME_TYPE]: mimeType(value) };
}

function traceText(value: unknown): string {
  const text = typeof value === "string" ? value : toWireJson(value);
  return text.length > VALUE_LIMIT ? `${text.slice(0, VALUE_LIMIT)}…` : text;
}

function mimeType(value: unknown): string {
  return typeof value === "string" ? "text/plain" : "application/json";
}
