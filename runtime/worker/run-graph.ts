import type { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { BaseMessageChunk } from "@langchain/core/messages";
import { Command, Send } from "@langchain/langgraph";
import type { Checkpointer } from "./checkpointer.ts";
import type { Graph, GraphConfig } from "./graphs.ts";
import { type GraphEvent, MessageAssembly } from "./message-assembly.ts";
import type { Resumption } from "./resumption.ts";
import type { ClaimedRun, NewRun, RunArguments } from "./run.ts";
import { checkpointOf, interruptsByTask, publicConfig } from "./thread-state.ts";
import type { CommandBody, StreamMode } from "./wire.ts";

/** What a graph has come to so far: its latest state and the interrupts it waits for. */
export interface GraphOutcome {
  values: Record<string, unknown>;
  interrupts: unknown[] | undefined;
  interruptsByTask: Record<string, unknown[]>;
}

/** Before anything happened. */
export function noOutcome(): GraphOutcome {
  return { values: {}, interrupts: undefined, interruptsByTask: {} };
}

/**
 * Executes a graph, telling `emit` what the client's stream modes ask for and keeping `outcome` up
 * to date, so that the caller has it also when the graph is stopped.
 *
 * Event names and data are LangGraph's: `values`, `updates`, `custom`, `debug`, `tasks`,
 * `checkpoints`, `messages` (for `messages-tuple`), `messages/metadata|partial|complete` (for
 * `messages`), `events`; with subgraphs `<mode>|<namespace>`.
 *
 * @throws whatever the graph throws.
 */
export async function runGraph(
  graph: Graph,
  { run, breakpoint }: Resumption,
  checkpointer: Checkpointer,
  options: { signal: AbortSignal; callbacks: BaseCallbackHandler[] },
  emit: (event: GraphEvent) => Promise<void> | undefined,
  outcome: GraphOutcome,
): Promise<void> {
  const modes = run.recorded ? run.kwargs.stream_mode : [];
  const messages = new MessageAssembly();
  const isNested = (namespace: string[]) => namespace.length > 0;

  const handle = async (namespace: string[], mode: string, chunk: unknown) => {
    if (mode === "values" && !isNested(namespace)) collect(outcome, chunk);
    if (mode === "messages") {
      if (modes.includes("messages-tuple")) {
        await emit({ event: eventName("messages", namespace), data: chunk });
      }
      if (modes.includes("messages")) {
        for (const event of messages.add(chunk as [BaseMessageChunk, object])) await emit(event);
      }
      return;
    }
    if (mode === "values" && modes.includes("messages") && !isNested(namespace)) {
      const complete = messages.complete(chunk);
      if (complete !== undefined) await emit(complete);
    }
    if (modes.includes(mode as StreamMode)) {
      await emit({ event: eventName(mode, namespace), data: publicChunk(mode, chunk) });
    }
  };

  if (breakpoint !== undefined) {
    await handle([], "values", breakpoint.values);
    await handle([], "updates", { __interrupt__: [] });
    await handle([], "values", { __interrupt__: [] });
    return;
  }
  const streamOptions = {
    ...graphOptions(run, checkpointer),
    ...options,
    streamMode: libraryModes(modes),
    subgraphs: run.kwargs.subgraphs,
  };
  const input = graphInput(run.kwargs);
  if (modes.includes("events")) {
    await streamEvents(graph, input, streamOptions, run, handle, emit);
  } else {
    for await (const chunk of await graph.stream(input, streamOptions)) {
      await handle(...splitChunk(chunk, run.kwargs.subgraphs));
    }
  }
  if (outcome.interrupts !== undefined && !run.ephemeral) {
    const { thread_id } = streamOptions.configurable;
    const head = { thread_id, checkpoint_ns: "", __pregel_checkpointer: checkpointer };
    outcome.interruptsByTask = interruptsByTask(await graph.getState({ configurable: head }));
  }
}

/** Also hands out LangChain's own events; the stream's chunks are among them. */
async function streamEvents(
  graph: Graph,
  input: unknown,
  options: ReturnType<typeof graphOptions> & { subgraphs: boolean },
  run: ClaimedRun,
  handle: (namespace: string[], mode: string, chunk: unknown) => Promise<void>,
  emit: (event: GraphEvent) => Promise<void> | undefined,
): Promise<void> {
  for await (const event of graph.streamEvents(input, { ...options, version: "v2" })) {
    if (event.tags?.includes("langsmith:hidden")) continue;
    if (event.event === "on_chain_stream" && event.run_id === run.runId) {
      await handle(...splitChunk(event.data.chunk, run.kwargs.subgraphs));
    }
    await emit({ event: "events", data: event });
  }
}

/** What a run's graph is made for, where it is exported as a function. */
export function graphConfig(run: NewRun): GraphConfig {
  const { config } = run.kwargs;
  return {
    ...config,
    configurable: {
      ...config.configurable,
      thread_id: run.threadId,
      checkpoint_ns: config.configurable.checkpoint_ns ?? "",
      run_id: run.runId,
      graph_id: run.graphId,
      assistant_id: run.assistantId,
    },
  };
}

function graphOptions(run: ClaimedRun, checkpointer: Checkpointer) {
  const { kwargs } = run;
  // By the run's id LangGraph knows its own checkpoints and resumes instead of starting anew.
  const metadata = {
    ...kwargs.config.metadata,
    ...run.metadata,
    run_id: run.runId,
    thread_id: run.threadId,
    graph_id: run.graphId,
    assistant_id: run.assistantId,
    run_attempt: run.attempt,
  };
  return withoutUndefined({
    runId: run.runId,
    metadata,
    tags: kwargs.config.tags,
    recursionLimit: kwargs.config.recursion_limit,
    configurable: {
      ...graphConfig(run).configurable,
      thread_id: run.threadId,
      __pregel_checkpointer: checkpointer,
    },
    context: kwargs.context,
    interruptBefore: kwargs.interrupt_before,
    interruptAfter: kwargs.interrupt_after,
    durability: kwargs.durability,
  });
}

/** LangGraph reads a present but undefined option as "unset the default of the graph". */
function withoutUndefined<T extends object>(options: T): T {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as T;
}

function graphInput(kwargs: RunArguments): unknown {
  return kwargs.command === undefined ? (kwargs.input ?? null) : langGraphCommand(kwargs.command);
}

/** The `Command` that a client's `{goto, update, resume}` means. */
export function langGraphCommand(body: CommandBody): Command {
  const targets = body.goto == null ? undefined : [body.goto].flat();
  return new Command({
    ...(targets && {
      goto: targets.map((target) =>
        typeof target === "string" ? target : new Send(target.node, target.input),
      ),
    }),
    ...(body.update != null && { update: body.update }),
    ...(body.resume !== undefined && { resume: body.resume }),
  });
}

/** `values` is always among them: the final state is its last chunk. */
function libraryModes(modes: StreamMode[]): Exclude<StreamMode, "events" | "messages-tuple">[] {
  const wanted = modes.map((mode) => (mode === "messages-tuple" ? "messages" : mode));
  return [...new Set([...wanted.filter((mode) => mode !== "events"), "values" as const])];
}

function splitChunk(chunk: unknown, hasNamespace: boolean): [string[], string, unknown] {
  if (hasNamespace) return chunk as [string[], string, unknown];
  const [mode, data] = chunk as [string, unknown];
  return [[], mode, data];
}

function eventName(mode: string, namespace: string[]): string {
  return namespace.length === 0 ? mode : `${mode}|${namespace.join("|")}`;
}

function collect(outcome: GraphOutcome, chunk: unknown): void {
  if (typeof chunk !== "object" || chunk === null) return;
  const { __interrupt__: interrupts, ...values } = chunk as Record<string, unknown>;
  if (Array.isArray(interrupts)) {
    outcome.interrupts = [...(outcome.interrupts ?? []), ...interrupts];
    if (Object.keys(values).length === 0) return;
  }
  outcome.values = values;
}

/** Takes LangGraph's internals (checkpointer, callbacks) out of what clients see. */
function publicChunk(mode: string, chunk: unknown): unknown {
  if (typeof chunk !== "object" || chunk === null) return chunk;
  if (mode === "debug") {
    const { type, payload } = chunk as { type: string; payload: object };
    return type === "checkpoint" ? { ...chunk, payload: publicCheckpoint(payload) } : chunk;
  }
  if (mode === "checkpoints") return publicCheckpoint(chunk);
  return chunk;
}

function publicCheckpoint(payload: object): object {
  const { config, parentConfig, ...rest } = payload as Record<string, unknown>;
  return {
    ...rest,
    config: publicConfig(config),
    parent_config: publicConfig(parentConfig),
    checkpoint: checkpointOf(config),
    parent_checkpoint: checkpointOf(parentConfig),
  };
}
