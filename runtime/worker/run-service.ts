import { v7 as uuidv7 } from "@langchain/core/utils/uuid";
import { conflict, type HttpError, notFound } from "../common/errors.ts";
import type { EventBus, RunEvent } from "./event-bus.ts";
import type { Executor } from "./executor.ts";
import { assistantOf, type Graphs, graphOf } from "./graphs.ts";
import { checkNodeNames, namesNodes } from "./node-names.ts";
import type { Queue } from "./queue.ts";
import type { CancelAction, NewRun, RunCaller, RunStatus } from "./run.ts";
import { runArguments } from "./run-arguments.ts";
import { graphConfig } from "./run-graph.ts";
import type { RunStore } from "./run-store.ts";
import type { Scope } from "./scope.ts";
import { AgentFault, useGraph } from "./use-graph.ts";
import type { RunCreate } from "./wire.ts";

const RECHECK_MS = 2_000;

/** A run that has been accepted, and where to learn how it ends. */
export interface AcceptedRun extends Scope {
  runId: string;
  threadId: string;
  assistantId: string;
  status: RunStatus;
  createdAt: Date;
  run: NewRun;
  /** Set where it executes in this process: its output, unless it ends elsewhere after all. */
  output: Promise<string | undefined> | undefined;
}

export interface RunRequest {
  scope: Scope;
  /** Undefined: a run of its own, on a thread of its own. */
  threadId: string | undefined;
  body: RunCreate;
  caller: RunCaller;
  /** The client's `x-…` headers, for `config.configurable`. */
  headers: Record<string, string>;
  /** Somebody listens to it, or may later. */
  recorded: boolean;
  /** Aborts when the client has gone away: nobody waits for the checks any more. */
  gone: AbortSignal;
}

/** Accepts runs and tells how they go. */
export class RunService {
  readonly #store: RunStore;
  readonly #bus: EventBus;
  readonly #queue: Queue;
  readonly #executor: Executor;
  readonly #graphs: Graphs;

  constructor(deps: {
    store: RunStore;
    bus: EventBus;
    queue: Queue;
    executor: Executor;
    graphs: Graphs;
  }) {
    this.#store = deps.store;
    this.#bus = deps.bus;
    this.#queue = deps.queue;
    this.#executor = deps.executor;
    this.#graphs = deps.graphs;
  }

  /**
   * Stores a run; from here on it survives anything. Starts it at once if there is room.
   *
   * @throws HttpError 404 for an unknown assistant, thread or checkpoint, 422 for an unknown node,
   *   409 for a busy thread with multitask strategy `reject`, 503 while the database is away.
   */
  async create(request: RunRequest): Promise<AcceptedRun> {
    const { body } = request;
    const run = await this.#checked(request);
    const isReserved = this.#queue.reserve();
    try {
      const acceptance = await this.#store.accept(run, {
        claim: isReserved,
        createThread: request.threadId === undefined || body.if_not_exists === "create",
        delayMs: delayOf(body),
      });
      if (acceptance.outcome !== "accepted") throw refusal(acceptance.outcome, run.threadId);
      const { claimed, cancelled, createdAt } = acceptance;
      if (cancelled.length > 0) this.#bus.announceCancelled(cancelled);
      const output = claimed && this.#executor.start(claimed);
      if (claimed === undefined) this.#queue.announce();
      const status = claimed === undefined ? "pending" : "running";
      return { ...run, status, createdAt, run, output };
    } finally {
      if (isReserved) this.#queue.unreserve();
    }
  }

  /**
   * Stores runs of their own, each on a thread of its own: all of them, or none.
   *
   * @throws as {@link create}
   */
  async createAll(requests: RunRequest[]): Promise<AcceptedRun[]> {
    const checked: { run: NewRun; delayMs: number }[] = [];
    for (const request of requests) {
      checked.push({ run: await this.#checked(request), delayMs: delayOf(request.body) });
    }
    const accepted = await this.#store.acceptAll(checked);
    this.#queue.announce();
    return accepted.map(({ run, createdAt }) => ({
      ...run,
      status: "pending",
      createdAt,
      run,
      output: undefined,
    }));
  }

  /** The output of a run as JSON, once it has ended, wherever that is. Undefined if it is gone. */
  async output(accepted: AcceptedRun, signal: AbortSignal): Promise<string | undefined> {
    return (await accepted.output) ?? (await this.join(accepted, null, accepted.runId, signal));
  }

  /** As {@link output}, for a run that was accepted at another time or place. */
  async join(
    scope: Scope,
    threadId: string | null,
    runId: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const ref = { tenant: scope.tenant, graphId: scope.graphId, runId };
    while (!signal.aborted) {
      if (await this.#bus.ended(ref, RECHECK_MS, signal)) {
        const outcome = await this.#store.outcome(scope, threadId, runId);
        return outcome?.output ?? undefined;
      }
    }
    return undefined;
  }

  /**
   * The events of a run after `afterId` (-1: all) until its end. A run that was not recorded, or
   * whose record is gone, tells how it ended: by the events 0 and 1.
   */
  async *events(
    scope: Scope,
    runId: string,
    afterId: number,
    signal: AbortSignal,
  ): AsyncGenerator<RunEvent> {
    const ref = { tenant: scope.tenant, graphId: scope.graphId, runId };
    let isSilent = true;
    for await (const event of this.#bus.follow(ref, afterId, signal)) {
      isSilent = false;
      yield event;
    }
    if (!isSilent || signal.aborted || afterId > 0) return;
    const outcome = await this.#store.outcome(scope, null, runId);
    if (outcome === undefined) return;
    if (afterId < 0) {
      yield { id: 0, event: "metadata", data: JSON.stringify({ run_id: runId, attempt: 1 }) };
    }
    const isError = outcome.status === "error";
    const output = outcome.output ?? "{}";
    const data = isError ? JSON.stringify(JSON.parse(output).__error__ ?? {}) : output;
    yield { id: 1, event: isError ? "error" : "values", data };
  }

  /**
   * Cancels the active runs of a scope, or those that a filter names.
   *
   * @returns The ids of those it reached.
   */
  async cancel(
    scope: Scope,
    filter: { statuses?: RunStatus[]; threadId?: string | null; runIds?: string[] | null },
    action: CancelAction,
  ): Promise<string[]> {
    const active = await this.#store.active(scope, {
      statuses: filter.statuses ?? ["pending", "running"],
      threadId: filter.threadId ?? null,
      runIds: filter.runIds ?? null,
    });
    const touched: string[] = [];
    for (const { runId, threadId } of active) {
      touched.push(...(await this.#store.cancel(scope, threadId, runId, action)));
    }
    if (touched.length > 0) this.#bus.announceCancelled(touched);
    return touched;
  }

  /**
   * A run of which all that can be known before it is stored has been checked.
   *
   * @throws HttpError 404 for an assistant that does not belong to the scope's graph and for an
   *   unknown checkpoint, 422 for a node that is not in it.
   */
  async #checked(request: RunRequest): Promise<NewRun> {
    const run = this.#newRun(request);
    if (namesNodes(request.body)) await this.#checkNodes(run, request);
    await this.#checkPlace(run);
    return run;
  }

  async #checkNodes(run: NewRun, { scope: { graphId }, body, gone }: RunRequest): Promise<void> {
    const served = graphOf(this.#graphs, graphId);
    try {
      await useGraph(served, graphConfig(run), gone, async (graph) =>
        checkNodeNames(graph, graphId, body),
      );
    } catch (error) {
      // An agent's code that fails here will fail the run as well, which tells about it.
      if (!(error instanceof AgentFault)) throw error;
    }
  }

  /** LangGraph would begin anew where the checkpoint to start from does not exist. */
  async #checkPlace(run: NewRun): Promise<void> {
    const { checkpoint_id: id, checkpoint_ns: ns = "" } = run.kwargs.config.configurable;
    if (typeof id !== "string" || typeof ns !== "string") return;
    if (!(await this.#store.hasCheckpoint(run, run.threadId, ns, id))) {
      throw notFound(`Checkpoint ${id} not found on thread ${run.threadId}.`);
    }
  }

  #newRun({ scope, threadId, body, caller, headers, recorded }: RunRequest): NewRun {
    const served = assistantOf(this.#graphs, scope.graphId, body.assistant_id);
    return {
      ...scope,
      runId: uuidv7(),
      threadId: threadId ?? uuidv7(),
      assistantId: served.assistantId,
      ephemeral: threadId === undefined && body.on_completion !== "keep",
      recorded,
      multitaskStrategy: body.multitask_strategy ?? "enqueue",
      metadata: body.metadata ?? {},
      kwargs: runArguments(body, headers),
      caller,
    };
  }
}

/** In ms. */
function delayOf(body: RunCreate): number {
  return Math.round((body.after_seconds ?? 0) * 1000);
}

function refusal(outcome: "busy" | "no_thread", threadId: string): HttpError {
  return outcome === "no_thread"
    ? notFound(`Thread ${threadId} not found.`)
    : conflict(
        `Thread ${threadId} has an active run. Wait for it, or use another multitask_strategy.`,
      );
}
