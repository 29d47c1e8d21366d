import { type Span, type Tracer, trace } from "@opentelemetry/api";
import type pg from "pg";
import type { Logger } from "../common/logging.ts";
import { contextOf } from "../common/telemetry.ts";
import { Checkpointer } from "./checkpointer.ts";
import type { EventBus, RunPublisher } from "./event-bus.ts";
import { type Graphs, graphOf } from "./graphs.ts";
import { resumption } from "./resumption.ts";
import type { ClaimedRun } from "./run.ts";
import type { RunClaims } from "./run-claims.ts";
import { withinRun } from "./run-context.ts";
import { type Ending, endingOf, type StopReason, stopped, success } from "./run-ending.ts";
import { type GraphOutcome, noOutcome, runGraph } from "./run-graph.ts";
import { endRunSpan, startRunSpan } from "./run-span.ts";
import { RunSpans } from "./run-spans.ts";
import { toWireJson } from "./wire-json.ts";

interface ActiveRun {
  controller: AbortController;
  /** Settles when all is done. */
  over: Promise<unknown>;
}

/** What an execution came to: the run's output as JSON, if it ended here and now. */
interface Conclusion {
  output: string | undefined;
  /** Further runs of its thread wait. */
  queued: boolean;
}

export interface ExecutorDeps {
  claims: RunClaims;
  bus: EventBus;
  graphs: Graphs;
  pool: pg.Pool;
  schema: string;
  tracer: Tracer;
  logger: Logger;
}

/** Executes claimed runs and writes down how they end. */
export class Executor {
  readonly #deps: ExecutorDeps;
  // By the claim: an attempt that lost its lease may still be ending when the next one starts here.
  readonly #active = new Map<ClaimedRun, ActiveRun>();
  /** Called when there is room again; `queued` says that more runs of the same thread wait. */
  onEnded: (queued: boolean) => void = () => {};

  constructor(deps: ExecutorDeps) {
    this.#deps = deps;
  }

  get activeRuns(): ClaimedRun[] {
    return [...this.#active.keys()];
  }

  /**
   * Starts a run.
   *
   * @returns Its output as JSON, once it ended; undefined if it ended elsewhere or was given back.
   */
  async start(run: ClaimedRun): Promise<string | undefined> {
    const controller = new AbortController();
    const publisher = this.#deps.bus.open(run);
    const execution = this.#execute(run, controller, publisher).catch((error: unknown) => {
      // The lease runs out, and the run is done again by whoever finds it.
      this.#deps.logger.error({ run_id: run.runId, err: error }, "a run could not be concluded");
      return { output: undefined, queued: false };
    });
    this.#active.set(run, { controller, over: execution });
    const { output, queued } = await execution;
    this.#active.delete(run);
    publisher.end();
    this.onEnded(queued);
    return output;
  }

  /** Stops a run that executes here; nothing if it does not. */
  stop(run: ClaimedRun, reason: StopReason): void {
    this.#active.get(run)?.controller.abort(reason);
  }

  /** Resolves when all runs have ended. Those still active at the deadline are given back. */
  async drain(deadline: number): Promise<void> {
    const all = Promise.all([...this.#active.values()].map(({ over }) => over));
    let timer: NodeJS.Timeout | undefined;
    const timeUp = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.max(0, deadline - Date.now()));
    });
    await Promise.race([all, timeUp]);
    clearTimeout(timer);
    for (const run of this.#active.keys()) this.stop(run, "worker stops");
    await all;
  }

  async #execute(
    run: ClaimedRun,
    controller: AbortController,
    publisher: RunPublisher,
  ): Promise<Conclusion> {
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
    const outcome = noOutcome();
    const checkpointer = this.#checkpointer(run, controller);
    const { signal } = controller;
    let ending: Ending;
    try {
      publisher.publish("metadata", JSON.stringify({ run_id: run.runId, attempt: run.attempt }));
      await withinRun(context, () =>
        this.#runGraph(run, checkpointer, signal, spans, publisher, outcome),
      );
      ending = success(outcome);
      // An ephemeral thread is deleted in a moment: what was not written yet need not be.
      if (!run.ephemeral) await checkpointer.flush();
    } catch (error) {
      ending = endingOf(error, signal, outcome);
      if (typeof ending === "object" && ending.error !== null) {
        logger.warn({ run_id: run.runId, err: error }, "run failed");
      }
    }
    spans?.endAll();
    const conclusion = await this.#conclude(run, ending, checkpointer, publisher);
    endRunSpan(span, typeof ending === "object" ? ending : undefined);
    logger.info({
      run_id: run.runId,
      tenant: run.tenant,
      graph_id: run.graphId,
      attempt: run.attempt,
      status: typeof ending === "object" ? ending.status : ending,
      duration_ms: Math.round(performance.now() - started),
    });
    return conclusion;
  }

  #checkpointer(run: ClaimedRun, controller: AbortController): Checkpointer {
    const { pool, schema, logger } = this.#deps;
    return new Checkpointer(pool, run, {
      schema,
      fence: { claim: run },
      fresh: run.ephemeral && run.attempt === 1,
      writeThrough: run.kwargs.durability === "sync",
      onFailure: (error) => {
        logger.warn({ run_id: run.runId, err: error }, "checkpoints could not be written");
        controller.abort(error);
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
    const { graph } = graphOf(this.#deps.graphs, run.graphId);
    await runGraph(
      graph,
      run.attempt === 1 ? { run } : await resumption(run, graph, checkpointer),
      checkpointer,
      { signal, callbacks: spans === undefined ? [] : [spans] },
      ({ event, data }) => publisher.publish(event, toWireJson(data)),
      outcome,
    );
  }

  /** Stores how the run ended. */
  async #conclude(
    run: ClaimedRun,
    ending: Ending,
    checkpointer: Checkpointer,
    publisher: RunPublisher,
  ): Promise<Conclusion> {
    const { claims, bus } = this.#deps;
    const nothing = { output: undefined, queued: false };
    const stored = await this.#settle(run, ending, checkpointer);
    if (typeof stored === "object" && stored.error !== null) {
      await publisher.publish("error", stored.error);
    }
    await publisher.flush();
    if (stored === "lease lost") return nothing;
    if (stored === "worker stops") {
      await claims.release(run);
      bus.announceQueued();
      return nothing;
    }
    if (stored === "rollback") {
      await claims.rollBack(run);
      return { output: "{}", queued: true };
    }
    const result = await claims.finish(run, stored);
    if (result === "lost") return nothing;
    if (result === "rolled back") return { output: "{}", queued: true };
    return { output: stored.output, queued: result === "queued" };
  }

  /** Writes or forgets the last checkpoints, as the ending demands. */
  async #settle(run: ClaimedRun, ending: Ending, checkpointer: Checkpointer): Promise<Ending> {
    const isKept = ending === "worker stops" || (typeof ending === "object" && !run.ephemeral);
    if (!isKept) {
      checkpointer.discard();
      if (ending !== "rollback" || !run.ephemeral) return ending;
      return stopped(noOutcome());
    }
    try {
      await checkpointer.flush();
      return ending;
    } catch (error) {
      checkpointer.discard();
      this.#deps.logger.warn({ run_id: run.runId, err: error }, "last checkpoints not written");
      // A failure is one all the same. Anything else is done again once the lease is over.
      return typeof ending === "object" && ending.error !== null ? ending : "lease lost";
    }
  }
}
