import { type Span, type Tracer, trace } from "@opentelemetry/api";
import type pg from "pg";
import type { Logger } from "../common/logging.ts";
import { contextOf } from "../common/telemetry.ts";
import { type RunContext, within } from "./agent-context.ts";
import { Checkpointer } from "./checkpointer.ts";
import type { EventBus, RunPublisher } from "./event-bus.ts";
import { type Graphs, graphOf } from "./graphs.ts";
import { orAborted } from "./or-aborted.ts";
import { resumption } from "./resumption.ts";
import type { ClaimedRun } from "./run.ts";
import type { RunClaims } from "./run-claims.ts";
import { type Conclusion, conclude, NOTHING } from "./run-conclusion.ts";
import { type Ending, endingOf, type StopReason, success } from "./run-ending.ts";
import { type GraphOutcome, graphConfig, noOutcome, runGraph } from "./run-graph.ts";
import { endRunSpan, startRunSpan } from "./run-span.ts";
import { RunSpans } from "./run-spans.ts";
import { toWireJson } from "./wire-json.ts";

interface ActiveRun {
  controller: AbortController;
  /** Settles when all is done. */
  over: Promise<unknown>;
}

/** What records an execution. */
interface Instruments {
  checkpointer: Checkpointer;
  publisher: RunPublisher;
  spans: RunSpans | undefined;
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
    const execution = this.#execute(run, controller, publisher);
    this.#active.set(run, { controller, over: execution.catch(() => {}) });
    let { output, queued } = NOTHING;
    try {
      ({ output, queued } = await execution);
    } finally {
      // Whatever happened: what is active has its lease renewed.
      this.#active.delete(run);
      publisher.end();
      this.onEnded(queued);
    }
    return output;
  }

  /** Stops a run that executes here; nothing if it does not. */
  stop(run: ClaimedRun, reason: StopReason): void {
    this.#active.get(run)?.controller.abort(reason);
  }

  /**
   * Resolves when all runs have ended. Those still active at the deadline are given back, for the
   * reason named.
   */
  async drain(
    deadline: number,
    reason: "worker stops" | "worker fails" = "worker stops",
  ): Promise<void> {
    const all = Promise.all([...this.#active.values()].map(({ over }) => over));
    let timer: NodeJS.Timeout | undefined;
    const timeUp = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.max(0, deadline - Date.now()));
    });
    await Promise.race([all, timeUp]);
    clearTimeout(timer);
    for (const run of this.#active.keys()) this.stop(run, reason);
    await all;
  }

  /** A run that could not be concluded is done again once its lease is over. */
  async #execute(
    run: ClaimedRun,
    controller: AbortController,
    publisher: RunPublisher,
  ): Promise<Conclusion> {
    const { tracer, logger } = this.#deps;
    const started = performance.now();
    const parent = contextOf(run.caller.trace);
    const span = startRunSpan(tracer, run, parent);
    let ending: Ending | undefined;
    let problem: unknown;
    try {
      const checkpointer = this.#checkpointer(run, controller);
      const context: RunContext = {
        kind: "run",
        runId: run.runId,
        graphId: run.graphId,
        assertion: run.caller.assertion,
        trace: trace.setSpan(parent, span),
        modelSpans: new Set<Span>(),
        fail: (error) => controller.abort(error),
      };
      const spans = span.isRecording() ? new RunSpans(tracer, context, run) : undefined;
      ending = await this.#runToEnding(run, context, controller.signal, {
        checkpointer,
        publisher,
        spans,
      });
      const conclusion = await conclude(run, ending, checkpointer, publisher, this.#deps);
      problem = conclusion.problem;
      return conclusion;
    } catch (error) {
      logger.error({ run_id: run.runId, err: error }, "a run could not be concluded");
      problem = error;
      return NOTHING;
    } finally {
      endRunSpan(span, typeof ending === "object" ? ending : undefined, problem);
      logger.info({
        run_id: run.runId,
        tenant: run.tenant,
        graph_id: run.graphId,
        attempt: run.attempt,
        status: problem === undefined ? statusOf(ending) : "refused",
        duration_ms: Math.round(performance.now() - started),
      });
    }
  }

  async #runToEnding(
    run: ClaimedRun,
    context: RunContext,
    signal: AbortSignal,
    { checkpointer, publisher, spans }: Instruments,
  ): Promise<Ending> {
    const outcome = noOutcome();
    try {
      publisher.publish("metadata", JSON.stringify({ run_id: run.runId, attempt: run.attempt }));
      await within(context, () =>
        this.#runGraph(run, checkpointer, signal, spans, publisher, outcome),
      );
      const ending = success(outcome);
      // An ephemeral thread is deleted in a moment: what was not written yet need not be.
      if (!run.ephemeral) await checkpointer.flush();
      return ending;
    } catch (error) {
      const ending = endingOf(error, signal, outcome);
      if (typeof ending === "object" && ending.error !== null) {
        this.#deps.logger.warn({ run_id: run.runId, err: error }, "run failed");
      }
      return ending;
    } finally {
      spans?.endAll();
    }
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
    // An agent's function knows no signal: it may never settle.
    const made = graphOf(this.#deps.graphs, run.graphId).graph(graphConfig(run));
    const graph = await orAborted(made, signal);
    await runGraph(
      graph,
      run.attempt === 1 ? { run } : await resumption(run, graph, checkpointer),
      checkpointer,
      { signal, callbacks: spans === undefined ? [] : [spans] },
      ({ event, data }) => publisher.publish(event, toWireJson(data)),
      outcome,
    );
  }
}

function statusOf(ending: Ending | undefined): string | undefined {
  return typeof ending === "object" ? ending.status : ending;
}
