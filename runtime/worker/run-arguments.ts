import type { RunArguments } from "./run.ts";
import type { RunCreate } from "./wire.ts";

/**
 * What a body asks a run to do, as it is stored.
 *
 * @param headers The client's `x-…` headers, for `config.configurable`.
 */
export function runArguments(body: RunCreate, headers: Record<string, string>): RunArguments {
  const { tags, recursion_limit, metadata, configurable } = body.config ?? {};
  const { checkpoint_id, ...place } = body.checkpoint ?? {};
  const from = body.checkpoint_id ?? checkpoint_id;
  return {
    ...(body.input !== undefined && { input: body.input }),
    ...(body.command != null && { command: body.command }),
    config: {
      ...(tags != null && { tags }),
      ...(recursion_limit != null && { recursion_limit }),
      ...(metadata != null && { metadata }),
      configurable: {
        ...headers,
        ...withoutInternals(configurable ?? {}),
        ...withoutInternals(place),
        ...(from != null && { checkpoint_id: from }),
      },
    },
    ...(body.context != null && { context: body.context }),
    stream_mode: body.stream_mode.length === 0 ? ["values"] : body.stream_mode,
    subgraphs: body.stream_subgraphs ?? false,
    ...(body.interrupt_before != null && { interrupt_before: body.interrupt_before }),
    ...(body.interrupt_after != null && { interrupt_after: body.interrupt_after }),
    ...durabilityOf(body),
  };
}

function durabilityOf(body: RunCreate): { durability?: "sync" | "async" | "exit" } {
  if (body.durability != null) return { durability: body.durability };
  if (body.checkpoint_during === false) return { durability: "exit" };
  return {};
}

/** A client must not reach LangGraph's own switches, e.g. hand in a checkpointer. */
function withoutInternals(configurable: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(configurable).filter(
      ([key, value]) => !key.startsWith("__") && key !== "thread_id" && value !== null,
    ),
  );
}
