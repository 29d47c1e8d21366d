import { HttpError, ValidationError } from "../common/errors.ts";
import { within } from "./agent-context.ts";
import type { Graph, GraphConfig, ServedGraph } from "./graphs.ts";
import { orAborted } from "./or-aborted.ts";
import { wireError } from "./wire-json.ts";

/** How long a request waits for an agent's code to make its graph, or to let a write begin, in ms. */
const PATIENCE_MS = 10_000;

/** An agent's own code failed where a request needed it: not the client's mistake, nor ours. */
export class AgentFault extends ValidationError {
  constructor(graphId: string, cause: unknown) {
    const { message: msg } = wireError(cause);
    super(
      [{ type: "graph_error", loc: ["graph"], msg, input: null }],
      `The code of graph ${graphId} failed: ${msg}`,
      cause,
    );
  }
}

/**
 * Lets a request look at something with an agent's graph, beside any run. Whatever the agent's code
 * throws meanwhile or later, and however long it takes, only this request fails.
 *
 * @param gone Aborts when the client has gone away.
 * @throws AgentFault 422, HttpError 504 where the agent's function makes no graph in time, the
 *   reason of `gone`, or whatever `work` throws.
 */
export async function useGraph<T>(
  served: ServedGraph,
  config: GraphConfig,
  gone: AbortSignal,
  work: (graph: Graph) => Promise<T>,
): Promise<T> {
  return withGraph(served, config, gone, (graph, signal) => orAborted(work(graph), signal));
}

/**
 * As {@link useGraph}, for work that stores something. From its first write on the answer is what
 * came of the work, and what the agent's code throws where nobody waits is only logged: a failure
 * that is told although the work goes on would make clients store it twice. Work that was given up
 * before stores nothing, however late it goes on.
 *
 * @param work Calls `store` right before each write, and writes nothing where that throws.
 * @throws as {@link useGraph}; HttpError 504 also where the work does not begin to write in time.
 */
export async function writeWithGraph<T>(
  served: ServedGraph,
  config: GraphConfig,
  gone: AbortSignal,
  work: (graph: Graph, store: () => void) => Promise<T>,
): Promise<T> {
  return withGraph(served, config, gone, (graph, signal) => {
    signal.throwIfAborted();
    const givenUp = new AbortController();
    const giveUp = () => givenUp.abort(signal.reason);
    signal.addEventListener("abort", giveUp, { once: true });
    const late = setTimeout(
      () => givenUp.abort(tooSlow(served.graphId, "let nothing be stored")),
      PATIENCE_MS,
    );
    const goOn = () => {
      clearTimeout(late);
      signal.removeEventListener("abort", giveUp);
    };
    const store = () => {
      givenUp.signal.throwIfAborted();
      goOn();
    };
    return orAborted(work(graph, store), givenUp.signal).finally(goOn);
  });
}

async function withGraph<T>(
  served: ServedGraph,
  config: GraphConfig,
  gone: AbortSignal,
  work: (graph: Graph, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { graphId } = served;
  const own = new AbortController();
  const signal = AbortSignal.any([gone, own.signal]);
  const fail = (error: Error) => own.abort(new AgentFault(graphId, error));
  return within({ kind: "request", graphId, fail }, async () => {
    const late = setTimeout(() => own.abort(tooSlow(graphId, "made no graph")), PATIENCE_MS);
    const making = served.graph(config).catch((error: unknown) => {
      throw new AgentFault(graphId, error);
    });
    const graph = await orAborted(making, signal).finally(() => clearTimeout(late));
    return work(graph, signal);
  });
}

function tooSlow(graphId: string, what: string): HttpError {
  const seconds = PATIENCE_MS / 1000;
  return new HttpError(
    504,
    "graph_timeout",
    `The code of graph ${graphId} ${what} within ${seconds} s.`,
  );
}
