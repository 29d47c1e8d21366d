import { type Span, SpanKind, type Tracer, trace } from "@opentelemetry/api";
import type pg from "pg";
import { HttpError } from "../common/errors.ts";
import type { Logger } from "../common/logging.ts";
import {
  contextOf,
  failSpan,
  GRAPH_ID,
  RUN_ID,
  SESSION_ID,
  SPAN_KIND,
  TENANT,
} from "../common/telemetry.ts";
import { Checkpointer, LeaseLost } from "./checkpointer.ts";
import type { EventBus, RunPublisher } from "./event-bus.ts";
import { type Graphs, graphOf } from "./graphs.ts";
import { withinRun } from "./run-context.ts";
import { type GraphOutcome, runGraph } from "./run-graph.ts";
import { inputAttributes, outputAttributes, RunSpans } from "./run-spans.ts";
import type { CancelAction, ClaimedRun, RunEnding, RunStore } from "./run-store.ts";
import { toWireJson, wireError } from "./wire-json.ts";

/** Why a graph was told to stop; the reason of its abort signal. */
type StopReason = CancelAction | "lease lost" | "worker stops";

interface ActiveRun {
  run: ClaimedRun;
  controller: AbortController;
  /** The run's output as JSON; undefined if it did not end here. */
  output: Promise<string | undefined>;
}

export interface ExecutorDeps {
  store: RunStore;
  bus: EventBus;
  graphs: Graphs;
  /** For checkpoints of runs under way: their commits need not wait for the disk. */
  checkpointPool: pg.Pool;
  /** For checkpoints of runs that asked for durability `sync`. */
  pool: pg.Pool;
  schema: string;
  tracer: Tracer;
  logger: Logger;
}

/** Executes claimed runs and writes down how they end. */
export class Executor {
  readonly #deps: ExecutorDeps;
  readonly #active = new Map<string, ActiveRun>();
  /** Called when a run has ended; `queued` says that more of its thread wait. */
  onEnded: (queued: boolean) => void = () => {};

  constructor(deps: ExecutorDeps) {
    this.#deps = deps;
  }

  get activeRuns(): ClaimedRun[] {
    return [...this.#active.values()].map(({ run }) => run);
  }

  /**
   * Starts a run.
   *
   * @returns Its output as JSON, once it ended; undefined if it ended elsewhere or was given back.
   */
  start(run: ClaimedRun): Promise<string | undefined> {
    const controller = new AbortController();
    const publisher = this.#deps.bus.open(run);
    const output = this.#execute(run, controller.signal, publisher).finally(() => {
      this.#active.delete(run.runId);
      publisher.end();
    });
    this.#active.set(run.runId, { run, controller, output });
    return output;
  }

  /** Stops a run that executes here; nothing if it does not. */
  stop(runId: string, reason: StopReason): void {
    const active = this.#active.get(runId);
    if (active !== undefined && !active.controller.signal.aborted) active.controller.abort(reason);
  }

  /** Resolves when all runs have ended. Those still active at the deadline are given back. */
  async drain(deadline: number): Promise<void> {
    const outputs = [...this.#active.values()].map(({ output }) => output);
    let timer: NodeJS.Timeout | undefined;
    const timeUp = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.max(0, deadline - Date.now()));
    });
    await Promise.race([Promise.allSettled(outputs), timeUp]);
    clearTimeout(timer);
    for (const runId of this.#active.keys()) this.stop(runId, "worker stops");
    await Promise.allSettled(outputs);
  }

  async #execute(
    run: ClaimedRun,
    signal: AbortSignal,
    publisher: RunPublisher,
  ): Promise<string | undefined> {
    const { tracer, logger } = this.#deps;
    const started = performance.now();
    const parent = contextOf(run.caller.trace);
    const span = startRunSpan(tracer, run, parent);
    const context = {
      assertion: run.caller.assertion,
      trace: trace.setSpan(parent, span),
      modelSpans: new Set<Span>(),
    };
    const spans = span.isRecording() ? new RunSpans(tracer, context, run) : undefined;
    const outcome: GraphOutcome = { values: {}, interrupts: undefined };
    const checkpointer = this.#checkpointer(run);
    let ending: RunEnding | StopReason;
    try {
      publisher.publish("metadata", JSON.stringify({ run_id: run.runId, attempt: run.attempt }));
      await withinRun(context, () =>
        this.#runGraph(run, checkpointer, signal, spans, publisher, outcome),
      );
      ending = success(outcome);
    } catch (error) {
      ending = this.#endingOf(error, signal, run, outcome);
      if (typeof ending === "object" && ending.error !== null) {
        failSpan(span, error);
        await publisher.publish("error", ending.error);
      }
    }
    spans?.endAll();
    const output = await this.#conclude(run, ending, checkpointer, publisher, outcome);
    if (span.isRecording()) {
      span.setAttributes(outputAttributes(outcome.values));
      span.end();
    }
    logger.info({
      run_id: run.runId,
      tenant: run.tenant,
      graph_id: run.graphId,
      attempt: run.attempt,
      status: typeof ending === "object" ? ending.status : ending,
      duration_ms: Math.round(performance.now() - started),
    });
    return output;
  }

  #checkpointer(run: ClaimedRun): Checkpointer {
    const { pool, checkpointPool, schema, logger } = this.#deps;
    const isSync = run.kwargs.durability === "sync";
    return new Checkpointer(isSync ? pool : checkpointPool, run, {
      schema,
      claim: run,
      fresh: run.ephemeral && run.attempt === 1,
      writeThrough: isSync,
      onFailure: (error) => {
        logger.warn({ run_id: run.runId, err: error }, "checkpoints could not be written");
        this.stop(run.runId, "lease lost");
      },
    });
  }

  async #runGraph(
    run: ClaimedRun,
    checkpointer: Checkpointer,
    signal: AbortSignal,
    spans: RunSpans | undefined,
    publisher: RunPublisher,
    outcome: GraphOutcome,
  ): Promise<void> {
    await runGraph(
      graphOf(this.#deps.graphs, run.graphId).graph,
      run.attempt === 1 ? run : await resumed(run, checkpointer),
      checkpointer,
      { signal, callbacks: spans === undefined ? [] : [spans] },
      ({ event, data }) => publisher.publish(event, toWireJson(data)),
      outcome,
    );
  }

  #endingOf(
    error: unknown,
    signal: AbortSignal,
    run: ClaimedRun,
    outcome: GraphOutcome,
  ): RunEnding | StopReason {
    if (error instanceof LeaseLost) return "lease lost";
    const reason = signal.aborted ? (signal.reason as StopReason) : undefined;
    if (reason === "interrupt") return stopped(outcome);
    if (reason !== undefined) return reason;
    // The database was away for longer than anyone waits: the lease runs out and the run goes on.
    if (error instanceof HttpError && error.status === 503) return "lease lost";
    this.#deps.logger.warn({ run_id: run.runId, err: error }, "run failed");
    return failure(error);
  }

  /** Stores how the run ended. */
  async #conclude(
    run: ClaimedRun,
    ending: RunEnding | StopReason,
    checkpointer: Checkpointer,
    publisher: RunPublisher,
    outcome: GraphOutcome,
  ): Promise<string | undefined> {
    const { store, bus, logger } = this.#deps;
    // An ephemeral thread is deleted in a moment: what was not written yet need not be.
    const isKept = ending === "worker stops" || (ending !== "lease lost" && !run.ephemeral);
    try {
      if (isKept) await checkpointer.flush();
      else checkpointer.discard();
      await publisher.flush();
      if (ending === "lease lost") return undefined;
      if (ending === "worker stops") {
        await store.release(run);
        bus.announceQueued();
        return undefined;
      }
      if (ending === "rollback" && !run.ephemeral) {
        await store.rollBack(run);
        this.onEnded(true);
        return "{}";
      }
      const stored = typeof ending === "object" ? ending : stopped(outcome);
      const result = await store.finish(run, stored);
      this.onEnded(result === "queued");
      return result === "lost" ? undefined : stored.output;
    } catch (error) {
      // The lease runs out, and the run is done again by whoever finds it.
      logger.error({ run_id: run.runId, err: error }, "the end of a run could not be stored");
      return undefined;
    }
  }
}

/**
 * The run for a further attempt. One that started from an old checkpoint has its own by now: it
 * goes on from there.
 */
async function resumed(run: ClaimedRun, checkpointer: Checkpointer): Promise<ClaimedRun> {
  const { checkpoint_id, ...configurable } = run.kwargs.config.configurable;
  if (checkpoint_id === undefined) return run;
  const head = await checkpointer.getTuple({
    configurable: { ...configurable, thread_id: run.threadId },
  });
  const metadata = head?.metadata as { run_id?: string } | undefined;
  if (metadata?.run_id !== run.runId) return run;
  return { ...run, kwargs: { ...run.kwargs, config: { ...run.kwargs.config, configurable } } };
}

function startRunSpan(tracer: Tracer, run: ClaimedRun, parent: ReturnType<typeof contextOf>): Span {
  const span = tracer.startSpan(
    `run ${run.graphId}`,
    {
      kind: SpanKind.INTERNAL,
      attributes: {
        [SPAN_KIND]: "AGENT",
        [TENANT]: run.tenant,
        [GRAPH_ID]: run.graphId,
        [RUN_ID]: run.runId,
        [SESSION_ID]: run.threadId,
        "platform.attempt": run.attempt,
      },
    },
    parent,
  );
  if (span.isRecording()) {
    span.setAttributes(inputAttributes(run.kwargs.input ?? run.kwargs.command ?? {}));
  }
  return span;
}

function success(outcome: GraphOutcome): RunEnding {
  const values = toWireJson(outcome.values);
  const { interrupts } = outcome;
  if (interrupts === undefined) {
    return {
      status: "success",
      output: values,
      threadStatus: "idle",
      threadValues: values,
      interrupts: "{}",
      error: null,
    };
  }
  return {
    status: "success",
    output: toWireJson({ ...outcome.values, __interrupt__: interrupts }),
    threadStatus: "interrupted",
    threadValues: values,
    interrupts: toWireJson(groupById(interrupts)),
    error: null,
  };
}

function stopped(outcome: GraphOutcome): RunEnding {
  const values = toWireJson(outcome.values);
  const hasValues = Object.keys(outcome.values).length > 0;
  return {
    status: "interrupted",
    output: values,
    threadStatus: "interrupted",
    threadValues: hasValues ? values : null,
    interrupts: "{}",
    error: null,
  };
}

function failure(error: unknown): RunEnding {
  const reported = wireError(error);
  return {
    status: "error",
    output: JSON.stringify({ __error__: reported }),
    threadStatus: "error",
    threadValues: null,
    interrupts: "{}",
    error: JSON.stringify(reported),
  };
}

function groupById(interrupts: unknown[]): Record<string, unknown[]> {
  const byId: Record<string, unknown[]> = {};
  for (const interrupt of interrupts) {
    const { id } = interrupt as { id?: string };
    byId[id ?? ""] = [...(byId[id ?? ""] ?? []), interrupt];
  }
  return byId;
}
