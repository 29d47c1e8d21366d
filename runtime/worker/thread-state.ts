import type { RunnableConfig } from "@langchain/core/runnables";
import type { StateSnapshot } from "@langchain/langgraph";
import { z } from "zod";
import { wireError } from "./wire-json.ts";

const checkpointConfig = z.object({
  configurable: z.object({
    thread_id: z.string(),
    checkpoint_id: z.string().nullish(),
    checkpoint_ns: z.string().nullish(),
    checkpoint_map: z.record(z.string(), z.unknown()).nullish(),
  }),
});

/** The place in a thread's history that a config names, as clients send it back. */
export function checkpointOf(config: unknown): object | null {
  const parsed = checkpointConfig.safeParse(config);
  if (!parsed.success) return null;
  const { thread_id, checkpoint_id, checkpoint_ns, checkpoint_map } = parsed.data.configurable;
  return {
    thread_id,
    checkpoint_id: checkpoint_id ?? null,
    checkpoint_ns: checkpoint_ns ?? "",
    checkpoint_map: checkpoint_map ?? null,
  };
}

/** A config without LangGraph's own entries (checkpointer, stream, callbacks …). */
export function publicConfig(config: unknown): object | undefined {
  if (typeof config !== "object" || config === null) return undefined;
  const { configurable } = config as RunnableConfig;
  return {
    configurable: Object.fromEntries(
      Object.entries(configurable ?? {}).filter(([key]) => !key.startsWith("__")),
    ),
  };
}

/** A snapshot in the shape of the SDKs' `ThreadState`. */
export function threadState(snapshot: StateSnapshot): object {
  return {
    values: snapshot.values ?? {},
    next: snapshot.next,
    tasks: snapshot.tasks.map((task) => ({
      id: task.id,
      name: task.name,
      path: task.path,
      error: task.error == null ? null : wireError(task.error).message,
      interrupts: task.interrupts,
      checkpoint:
        task.state !== undefined && "configurable" in task.state ? checkpointOf(task.state) : null,
      state: isSnapshot(task.state) ? threadState(task.state) : null,
      result: task.result ?? null,
    })),
    metadata: snapshot.metadata ?? {},
    created_at: snapshot.createdAt ?? null,
    checkpoint: checkpointOf(snapshot.config),
    parent_checkpoint: checkpointOf(snapshot.parentConfig),
    interrupts: snapshot.tasks.flatMap((task) => task.interrupts),
  };
}

function isSnapshot(state: unknown): state is StateSnapshot {
  return typeof state === "object" && state !== null && "values" in state && "next" in state;
}

/** The open interrupts of a state by task, as `Thread.interrupts` has them. */
export function interruptsByTask(snapshot: StateSnapshot): Record<string, unknown[]> {
  return Object.fromEntries(
    snapshot.tasks
      .filter((task) => task.interrupts.length > 0)
      .map((task) => [task.id, task.interrupts]),
  );
}
