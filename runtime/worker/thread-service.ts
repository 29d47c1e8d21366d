import type { RunnableConfig } from "@langchain/core/runnables";
import type { StateSnapshot } from "@langchain/langgraph";
import pg from "pg";
import { HttpError, notFound, ValidationError } from "../common/errors.ts";
import { Checkpointer } from "./checkpointer.ts";
import { type Graph, type Graphs, graphOf } from "./graphs.ts";
import { langGraphCommand } from "./run-graph.ts";
import type { Scope } from "./scope.ts";
import { checkpointOf, interruptsByTask } from "./thread-state.ts";
import type { Thread, ThreadStore } from "./thread-store.ts";
import type { CommandBody, HistoryQuery } from "./wire.ts";
import { toWireJson } from "./wire-json.ts";

/** How long a request waits for a database that restarts, in ms. */
const PATIENCE_MS = 10_000;

type Place = Record<string, unknown>;

/** One superstep of updates by hand. */
export interface StateUpdate {
  values?: unknown;
  command?: CommandBody | null | undefined;
  asNode?: string | undefined;
}

/** The states of threads: what LangGraph's checkpointer holds of them. */
export class ThreadService {
  readonly #store: ThreadStore;
  readonly #pool: pg.Pool;
  readonly #schema: string;
  readonly #graphs: Graphs;

  constructor(deps: { threads: ThreadStore; pool: pg.Pool; schema: string; graphs: Graphs }) {
    this.#store = deps.threads;
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
   * @throws HttpError 404 where there is no such thread or checkpoint.
   */
  async state(
    scope: Scope,
    threadId: string,
    place: Place,
    subgraphs: boolean,
  ): Promise<StateSnapshot> {
    await this.known(scope, threadId);
    const { graph, config } = await this.#at(scope, threadId, place);
    const state = await graph.getState(config, { subgraphs });
    if (place.checkpoint_id != null && state.createdAt === undefined) {
      throw notFound(`Checkpoint ${place.checkpoint_id} not found on thread ${threadId}.`);
    }
    return state;
  }

  async history(scope: Scope, threadId: string, query: HistoryQuery): Promise<StateSnapshot[]> {
    await this.known(scope, threadId);
    const { graph, config } = await this.#at(scope, threadId, { ...query.checkpoint });
    const states: StateSnapshot[] = [];
    for await (const state of graph.getStateHistory(config, {
      limit: query.limit ?? 10,
      ...(query.before != null && { before: { configurable: query.before } }),
      ...(query.metadata != null && { filter: query.metadata }),
    })) {
      states.push(state);
    }
    return states;
  }

  /**
   * Updates a state by hand, as if a node had written it.
   *
   * @returns The checkpoint that came of it.
   * @throws HttpError 409 while a run is active, 422 where the graph refuses the update.
   */
  async update(
    scope: Scope,
    threadId: string,
    place: Place,
    supersteps: StateUpdate[][],
  ): Promise<object | null> {
    await this.state(scope, threadId, place, false);
    const { graph, config } = await this.#at(scope, threadId, place);
    const updated = await updateGraph(graph, config, supersteps);
    const { config: latest } = await this.#at(scope, threadId, {});
    const state = await graph.getState(latest);
    await this.#store.setState(scope, threadId, {
      status: state.next.length > 0 ? "interrupted" : "idle",
      values: toWireJson(state.values),
      interrupts: toWireJson(interruptsByTask(state)),
    });
    return checkpointOf(updated);
  }

  async #graph(scope: Scope, threadId: string): Promise<Graph> {
    const served = graphOf(this.#graphs, scope.graphId);
    // As the thread's last run saw it.
    const config = served.isMade ? await this.#store.lastConfig(scope, threadId) : undefined;
    return served.graph({
      ...config,
      configurable: { ...config?.configurable, thread_id: threadId },
    });
  }

  async #at(
    scope: Scope,
    threadId: string,
    place: Place,
  ): Promise<{ graph: Graph; config: RunnableConfig }> {
    const checkpointer = new Checkpointer(this.#pool, scope, {
      schema: this.#schema,
      fence: { threadAtRest: threadId },
      patienceMs: PATIENCE_MS,
    });
    return {
      graph: await this.#graph(scope, threadId),
      config: {
        configurable: {
          checkpoint_ns: "",
          ...Object.fromEntries(
            Object.entries(place).filter(([key, v]) => v != null && !key.startsWith("__")),
          ),
          thread_id: threadId,
          __pregel_checkpointer: checkpointer,
        },
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
