import type { RunnableConfig } from "@langchain/core/runnables";
import type { StateSnapshot } from "@langchain/langgraph";
import pg from "pg";
import { HttpError, notFound, ValidationError } from "../common/errors.ts";
import { Checkpointer } from "./checkpointer.ts";
import { type Graph, type GraphConfig, type Graphs, graphOf, type ServedGraph } from "./graphs.ts";
import { langGraphCommand } from "./run-graph.ts";
import type { RunStore } from "./run-store.ts";
import type { Scope } from "./scope.ts";
import { checkpointOf, interruptsByTask } from "./thread-state.ts";
import type { Thread, ThreadStore } from "./thread-store.ts";
import { useGraph, writeWithGraph } from "./use-graph.ts";
import type { CommandBody, HistoryQuery } from "./wire.ts";
import { toWireJson } from "./wire-json.ts";

/** How long a request waits for a database that restarts, in ms. */
const PATIENCE_MS = 10_000;

/** A place in a thread's history: a checkpoint, the latest without an id. */
interface Place {
  checkpoint_id?: string | null | undefined;
  checkpoint_ns?: string | null | undefined;
  [key: string]: unknown;
}

/** One superstep of updates by hand. */
export interface StateUpdate {
  values?: unknown;
  command?: CommandBody | null | undefined;
  asNode?: string | undefined;
}

/** The states of threads: what LangGraph's checkpointer holds of them. */
export class ThreadService {
  readonly #store: ThreadStore;
  readonly #runs: RunStore;
  readonly #pool: pg.Pool;
  readonly #schema: string;
  readonly #graphs: Graphs;

  constructor(deps: {
    threads: ThreadStore;
    runs: RunStore;
    pool: pg.Pool;
    schema: string;
    graphs: Graphs;
  }) {
    this.#store = deps.threads;
    this.#runs = deps.runs;
    this.#pool = deps.pool;
    this.#schema = deps.schema;
    this.#graphs = deps.graphs;
  }

  /** @throws HttpError 404 */
  async known(scope: Scope, threadId: string): Promise<Thread> {
    const thread = await this.#store.get(scope, threadId);
    if (thread === undefined) throw notFound(`Thread ${threadId} not found.`);
    return thread;
  }

  /**
   * The state at a place of the thread's history; the latest without one.
   *
   * @throws HttpError 404 where there is no such thread or checkpoint, 422 or 504 where the agent's
   *   function makes no graph.
   */
  async state(
    scope: Scope,
    threadId: string,
    place: Place,
    subgraphs: boolean,
    gone: AbortSignal,
  ): Promise<StateSnapshot> {
    const config = this.#config(scope, threadId, place);
    if (!(await this.#hasState(scope, threadId, place))) {
      return { values: {}, next: [], tasks: [], config };
    }
    return useGraph(...(await this.#graph(scope, threadId)), gone, (graph) =>
      graph.getState(config, { subgraphs }),
    );
  }

  async history(
    scope: Scope,
    threadId: string,
    query: HistoryQuery,
    gone: AbortSignal,
  ): Promise<StateSnapshot[]> {
    const place = { ...query.checkpoint };
    if (!(await this.#hasState(scope, threadId, place))) return [];
    const config = this.#config(scope, threadId, place);
    return useGraph(...(await this.#graph(scope, threadId)), gone, async (graph) => {
      const states: StateSnapshot[] = [];
      for await (const state of graph.getStateHistory(config, {
        limit: query.limit ?? 10,
        ...(query.before != null && { before: { configurable: query.before } }),
        ...(query.metadata != null && { filter: query.metadata }),
      })) {
        states.push(state);
      }
      return states;
    });
  }

  /**
   * Updates a state by hand, as if a node had written it.
   *
   * @returns The checkpoint that came of it.
   * @throws HttpError 409 while a run is active, 422 where the graph refuses the update, 504 where the
   *   agent's code keeps it from being stored, or as {@link state}.
   */
  async update(
    scope: Scope,
    threadId: string,
    place: Place,
    supersteps: StateUpdate[][],
    gone: AbortSignal,
  ): Promise<object | null> {
    await this.#hasState(scope, threadId, place);
    return writeWithGraph(...(await this.#graph(scope, threadId)), gone, async (graph, store) => {
      const config = this.#config(scope, threadId, place, store);
      const updated = await updateGraph(graph, config, supersteps);
      const state = await graph.getState(this.#config(scope, threadId, {}));
      await this.#store.setState(scope, threadId, {
        status: state.next.length > 0 ? "interrupted" : "idle",
        values: toWireJson(state.values),
        interrupts: toWireJson(interruptsByTask(state)),
      });
      return checkpointOf(updated);
    });
  }

  /**
   * Whether there is a checkpoint. Where there is none nobody needs the graph, which an agent's
   * function may be unable to make. The checkpoint itself, which may be large, is not read.
   *
   * @throws HttpError 404 where there is no such thread, or not the checkpoint that is named.
   */
  async #hasState(scope: Scope, threadId: string, place: Place): Promise<boolean> {
    await this.known(scope, threadId);
    const { checkpoint_ns: ns, checkpoint_id: id } = place;
    const hasState = await this.#runs.hasCheckpoint(scope, threadId, ns ?? "", id);
    if (!hasState && id != null) {
      throw notFound(`Checkpoint ${id} not found on thread ${threadId}.`);
    }
    return hasState;
  }

  /** A thread's graph, and what it is made for: as the thread's last run saw it. */
  async #graph(scope: Scope, threadId: string): Promise<[ServedGraph, GraphConfig]> {
    const served = graphOf(this.#graphs, scope.graphId);
    const last = served.isMade ? await this.#store.lastConfig(scope, threadId) : undefined;
    return [served, { ...last, configurable: { ...last?.configurable, thread_id: threadId } }];
  }

  #config(scope: Scope, threadId: string, place: Place, beforeWrite?: () => void): RunnableConfig {
    return {
      configurable: {
        checkpoint_ns: "",
        ...Object.fromEntries(
          Object.entries(place).filter(([key, v]) => v != null && !key.startsWith("__")),
        ),
        thread_id: threadId,
        __pregel_checkpointer: new Checkpointer(this.#pool, scope, {
          schema: this.#schema,
          fence: { threadAtRest: threadId },
          patienceMs: PATIENCE_MS,
          ...(beforeWrite && { beforeWrite }),
        }),
      },
    };
  }
}

async function updateGraph(
  graph: Graph,
  config: RunnableConfig,
  supersteps: StateUpdate[][],
): Promise<RunnableConfig> {
  try {
    return await graph.bulkUpdateState(
      config,
      supersteps.map((updates) => ({
        updates: updates.map(({ values, command, asNode }) => ({
          values: command == null ? (values as Record<string, unknown>) : langGraphCommand(command),
          ...(asNode !== undefined && { asNode }),
        })),
      })),
    );
  } catch (error) {
    if (error instanceof HttpError || error instanceof pg.DatabaseError) throw error;
    // What is left is the graph's own opinion of the values: unknown node, wrong shape.
    const msg = error instanceof Error ? error.message : String(error);
    throw new ValidationError(
      [{ type: "value_error", loc: ["body", "values"], msg, input: null }],
      `The graph refuses this update: ${msg}`,
    );
  }
}
