import type { StateSnapshot } from "@langchain/langgraph";
import type { Checkpointer } from "./checkpointer.ts";
import type { Graph } from "./graphs.ts";
import type { ClaimedRun } from "./run.ts";

/** How a further attempt goes on. */
export interface Resumption {
  run: ClaimedRun;
  /** The earlier attempt had come to a breakpoint, and only its end was not stored: stop there. */
  breakpoint?: StateSnapshot;
}

/**
 * Where an attempt goes on after another one of the same run was lost.
 *
 * If the run has a checkpoint of its own, it has taken its input, or its command: given again, an
 * answer to one interrupt would answer the next one. And LangGraph takes a run that goes on as one
 * that was told to pass the breakpoint it stands at, which nobody did.
 */
export async function resumption(
  run: ClaimedRun,
  graph: Graph,
  checkpointer: Checkpointer,
): Promise<Resumption> {
  const { checkpoint_id, ...configurable } = run.kwargs.config.configurable;
  const place = { configurable: { thread_id: run.threadId, checkpoint_ns: "" } };
  const head = await checkpointer.getTuple(place);
  const metadata = head?.metadata as { run_id?: string } | undefined;
  if (head === undefined || metadata?.run_id !== run.runId) return { run };

  const { input, command, ...kwargs } = run.kwargs;
  const resumed = { ...run, kwargs: { ...kwargs, config: { ...kwargs.config, configurable } } };
  const before = run.kwargs.interrupt_before ?? graph.interruptBefore ?? [];
  const after = run.kwargs.interrupt_after ?? graph.interruptAfter ?? [];
  const hasBreakpoints = before.length > 0 || after.length > 0;
  if (!hasBreakpoints || !hasUnseenUpdates(head.checkpoint) || head.pendingWrites?.length !== 0) {
    return { run: resumed };
  }
  const at = (config: object) =>
    graph.getState({
      ...config,
      configurable: {
        ...("configurable" in config && (config.configurable as object)),
        __pregel_checkpointer: checkpointer,
      },
    });
  const state = await at(place);
  const isBefore = names(before, state.next);
  const isAfter =
    head.parentConfig !== undefined && names(after, (await at(head.parentConfig)).next);
  return isBefore || isAfter ? { run: resumed, breakpoint: state } : { run: resumed };
}

/** LangGraph's own condition for stopping at a breakpoint: something is new since the last stop. */
function hasUnseenUpdates(checkpoint: {
  channel_versions: Record<string, number | string>;
  versions_seen: Record<string, Record<string, number | string>>;
}): boolean {
  const seen = checkpoint.versions_seen.__interrupt__ ?? {};
  return Object.entries(checkpoint.channel_versions).some(
    ([channel, version]) => Number(version) > Number(seen[channel] ?? 0),
  );
}

function names(breakpoints: string | readonly PropertyKey[], nodes: readonly string[]): boolean {
  if (breakpoints === "*") return nodes.length > 0;
  return nodes.some((node) => breakpoints.includes(node));
}
