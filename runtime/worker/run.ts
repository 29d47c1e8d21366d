import type { Claim } from "./checkpointer.ts";
import type { Scope } from "./scope.ts";
import type { CommandBody, StreamMode } from "./wire.ts";

export type RunStatus = "pending" | "running" | "success" | "error" | "timeout" | "interrupted";
export type CancelAction = "interrupt" | "rollback";
export type MultitaskStrategy = "reject" | "interrupt" | "rollback" | "enqueue";

/** What a run was asked to do, as stored and as given back in `kwargs`. */
export interface RunArguments {
  input?: unknown;
  command?: CommandBody;
  config: {
    tags?: string[];
    recursion_limit?: number;
    metadata?: Record<string, unknown>;
    configurable: Record<string, unknown>;
  };
  context?: Record<string, unknown>;
  stream_mode: StreamMode[];
  subgraphs: boolean;
  interrupt_before?: string[] | "*";
  interrupt_after?: string[] | "*";
  durability?: "sync" | "async" | "exit";
}

/** Who asked for a run and within which trace; never shown to clients. */
export interface RunCaller {
  subject: string;
  assertion: string;
  trace: Record<string, string>;
}

/** A run as it is accepted. */
export interface NewRun extends Scope {
  runId: string;
  threadId: string;
  assistantId: string;
  /** Its thread exists only for it and goes with it. */
  ephemeral: boolean;
  /** Its events are kept for listeners that come later or on another replica. */
  recorded: boolean;
  multitaskStrategy: MultitaskStrategy;
  metadata: Record<string, unknown>;
  kwargs: RunArguments;
  caller: RunCaller;
}

/** A run that this worker executes now. */
export interface ClaimedRun extends NewRun, Claim {
  /** 1 for the first start. */
  attempt: number;
  /** It was lost with its worker more than once: this worker executes no other such run beside it. */
  isSuspect: boolean;
}

/** A stored run, as clients see it. */
export interface StoredRun {
  run_id: string;
  thread_id: string;
  assistant_id: string;
  status: RunStatus;
  metadata: Record<string, unknown>;
  kwargs: RunArguments;
  multitask_strategy: MultitaskStrategy;
  created_at: string;
  updated_at: string;
}

/** How a run ended, as stored with it and its thread. JSON texts where it says so. */
export interface RunEnding {
  status: "success" | "error" | "interrupted";
  /** What `wait` and `join` answer, as JSON. */
  output: string;
  threadStatus: "idle" | "error" | "interrupted";
  /** The thread's values as JSON; null leaves them. */
  threadValues: string | null;
  /** The thread's open interrupts by task, as JSON. */
  interrupts: string;
  /** The thread's error as JSON, or null. */
  error: string | null;
}
