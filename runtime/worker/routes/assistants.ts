import type { RunnableConfig } from "@langchain/core/runnables";
import { Hono } from "hono";
import { clientGone } from "../answer.ts";
import { assistantOf, type Graphs, graphOf, type ServedGraph } from "../graphs.ts";
import { readBody, readQuery, type WorkerEnv } from "../request.ts";
import { useGraph } from "../use-graph.ts";
import * as wire from "../wire.ts";

/** Assistants: each graph comes with one; its id is derived from the graph's. */
export function assistantRoutes(graphs: Graphs): Hono<WorkerEnv> {
  const app = new Hono<WorkerEnv>();

  const matching = (
    graphId: string,
    filter: {
      graph_id?: string | null;
      name?: string | null;
      metadata?: Record<string, unknown> | null;
    },
  ) => {
    const assistant = describe(graphOf(graphs, graphId));
    const isMatch =
      (filter.graph_id == null || filter.graph_id === graphId) &&
      (filter.name == null || assistant.name.toLowerCase().includes(filter.name.toLowerCase())) &&
      Object.entries(filter.metadata ?? {}).every(
        ([key, value]) => (assistant.metadata as Record<string, unknown>)[key] === value,
      );
    return isMatch ? [assistant] : [];
  };

  app.post("/assistants/search", async (c) => {
    const body = await readBody(c, wire.assistantSearch);
    const found = matching(c.var.caller.graphId, body);
    const offset = body.offset ?? 0;
    c.header("x-pagination-total", String(found.length));
    return c.json(found.slice(offset, offset + (body.limit ?? 10)));
  });

  app.post("/assistants/count", async (c) => {
    const body = await readBody(c, wire.assistantSearch);
    return c.json(matching(c.var.caller.graphId, body).length);
  });

  app.get("/assistants/:assistant_id", (c) =>
    c.json(describe(assistantOf(graphs, c.var.caller.graphId, c.req.param("assistant_id")))),
  );

  app.get("/assistants/:assistant_id/graph", async (c) => {
    const { xray } = readQuery(c, wire.assistantQuery);
    const served = assistantOf(graphs, c.var.caller.graphId, c.req.param("assistant_id"));
    const depth = xray === undefined || /^(false|0)$/.test(xray) ? false : Number(xray) || true;
    const options: RunnableConfig & { xray: boolean | number } = { xray: depth };
    const drawing = await useGraph(served, { configurable: {} }, clientGone(c), (graph) =>
      graph.getGraphAsync(options),
    );
    return c.json(drawing.toJSON());
  });

  return app;
}

function describe(served: ServedGraph) {
  return {
    assistant_id: served.assistantId,
    graph_id: served.graphId,
    name: served.graphId,
    description: null,
    config: {},
    context: {},
    metadata: { created_by: "system" },
    version: 1,
    created_at: served.createdAt,
    updated_at: served.createdAt,
  };
}
