import { readFile } from "node:fs/promises";
import { dirname, isAbsolute, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { v5 as uuidv5 } from "@langchain/core/utils/uuid";
import type { Pregel } from "@langchain/langgraph/pregel";
import { z } from "zod";
import { notFound, UserError } from "../common/errors.ts";

// biome-ignore lint/suspicious/noExplicitAny: a customer's graph has any nodes and channels
export type Graph = Pregel<any, any, any, any, any>;

/** LangGraph's namespace for the ids of default assistants. */
const ASSISTANT_NAMESPACE = "6ba7b821-9dad-11d1-80b4-00c04fd430c8";

/** What a graph that is exported as a function is made for: a run's configuration, or a thread's. */
export interface GraphConfig {
  configurable: Record<string, unknown>;
  metadata?: Record<string, unknown>;
  tags?: string[];
}

/** One graph that this worker serves, with the assistant that comes with it. */
export interface ServedGraph {
  graphId: string;
  /** It is exported as a function. */
  isMade: boolean;
  /**
   * The compiled graph. Exported as a function it is made anew for each configuration, as on
   * LangGraph's own server: what it looks like may depend on that.
   *
   * @throws whatever an agent's function throws.
   */
  graph(config: GraphConfig): Promise<Graph>;
  assistantId: string;
  createdAt: string;
}

/** The graphs of a langgraph.json, by graph id. */
export type Graphs = ReadonlyMap<string, ServedGraph>;

const graphPath = z.string().regex(/^.+:[\w$]+$/, "must look like ./file.ts:export");
/** Part of the checkpointer's keys, between slashes. */
const GRAPH_ID = /^[\w.-]+$/;
const langgraphJson = z.looseObject({
  graphs: z
    .record(
      z.string(),
      z.union([graphPath, z.looseObject({ path: graphPath }).transform(({ path }) => path)]),
    )
    .refine((graphs) => Object.keys(graphs).length > 0, "must name at least one graph")
    .refine(
      (graphs) => Object.keys(graphs).every((id) => GRAPH_ID.test(id)),
      "a graph id has letters, digits, '.', '_' and '-' only",
    ),
});

/**
 * Loads every graph of a `langgraph.json`: `{"graphs": {"<graph id>": "./file.ts:export"}}`.
 *
 * @throws UserError that names the file, the graph and what is wrong with it.
 */
export async function loadGraphs(configFile: string): Promise<Graphs> {
  const config = await readConfig(configFile);
  const graphs = new Map<string, ServedGraph>();
  for (const [graphId, path] of Object.entries(config.graphs)) {
    graphs.set(graphId, {
      graphId,
      ...(await loadGraph(graphId, path, dirname(resolve(configFile)))),
      assistantId: uuidv5(graphId, ASSISTANT_NAMESPACE),
      createdAt: new Date().toISOString(),
    });
  }
  return graphs;
}

async function readConfig(configFile: string): Promise<z.output<typeof langgraphJson>> {
  let content: unknown;
  try {
    content = JSON.parse(await readFile(configFile, "utf8"));
  } catch (error) {
    throw new UserError(
      "langgraph_config",
      `${configFile} can't be read: ${(error as Error).message}.`,
      "Set LANGGRAPH_CONFIG to the path of a langgraph.json.",
    );
  }
  const result = langgraphJson.safeParse(content);
  if (result.success) return result.data;
  throw new UserError(
    "langgraph_config",
    `${configFile} is not valid: ${z.prettifyError(result.error)}`,
    'It needs {"graphs": {"<graph id>": "./file.ts:export"}}.',
  );
}

async function loadGraph(
  graphId: string,
  path: string,
  directory: string,
): Promise<Pick<ServedGraph, "isMade" | "graph">> {
  const colon = path.lastIndexOf(":");
  const file = path.slice(0, colon);
  const exportName = path.slice(colon + 1);
  const absolute = isAbsolute(file) ? file : resolve(directory, file);
  let module: Record<string, unknown>;
  try {
    module = await import(pathToFileURL(absolute).href);
  } catch (error) {
    throw new UserError(
      "graph_load",
      `Graph ${graphId}: ${absolute} can't be loaded: ${(error as Error).message}`,
      "Run the file with node to see the whole error.",
    );
  }
  const exported: unknown = await module[exportName];
  const noGraph = () =>
    new UserError(
      "graph_load",
      `Graph ${graphId}: ${absolute} exports no graph named ${exportName}.`,
      `Export one: export const ${exportName} = new StateGraph(…).compile()`,
    );
  if (typeof exported === "function") {
    const graph = async (config: GraphConfig) => {
      const made = compiledGraph(await exported(config));
      if (made === undefined) throw noGraph();
      return made;
    };
    return { isMade: true, graph };
  }
  const graph = compiledGraph(exported);
  if (graph === undefined) throw noGraph();
  return { isMade: false, graph: async () => graph };
}

/** What was exported or made: a graph, a StateGraph that nobody has compiled, or LangChain's agent. */
function compiledGraph(made: unknown): Graph | undefined {
  if (typeof made !== "object" || made === null) return undefined;
  if (isGraph(made)) return made;
  if ("compile" in made && typeof made.compile === "function") return made.compile();
  if ("graph" in made && isGraph(made.graph)) return made.graph;
  return undefined;
}

function isGraph(value: unknown): value is Graph {
  return (
    typeof value === "object" &&
    value !== null &&
    "stream" in value &&
    "getState" in value &&
    "lg_is_pregel" in value
  );
}

/**
 * The graph behind an assistant id, which may be the graph id itself.
 *
 * @param graphId The graph that the call was routed to: an assistant of another one is not found.
 * @throws HttpError 404
 */
export function assistantOf(graphs: Graphs, graphId: string, assistantId: string): ServedGraph {
  const served = graphs.get(graphId);
  if (served !== undefined && (assistantId === graphId || assistantId === served.assistantId)) {
    return served;
  }
  throw notFound(
    `Assistant ${assistantId} not found. Use the graph id ${graphId}, or the id of its assistant.`,
  );
}

/** The graph that a call was routed to. */
export function graphOf(graphs: Graphs, graphId: string): ServedGraph {
  const served = graphs.get(graphId);
  if (served === undefined) throw notFound(`Graph ${graphId} is not served by this worker.`);
  return served;
}
