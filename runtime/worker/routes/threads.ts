import { v7 as uuidv7 } from "@langchain/core/utils/uuid";
import { Hono } from "hono";
import { conflict, notFound } from "../../common/errors.ts";
import { clientGone } from "../answer.ts";
import type { EventBus } from "../event-bus.ts";
import {
  readBody,
  readQuery,
  uuidParameter,
  type WorkerContext,
  type WorkerEnv,
} from "../request.ts";
import type { ThreadService } from "../thread-service.ts";
import { threadState } from "../thread-state.ts";
import type { ThreadStore } from "../thread-store.ts";
import * as wire from "../wire.ts";
import { toWireJson } from "../wire-json.ts";

/** Threads and their states. */
export function threadRoutes(deps: {
  threads: ThreadStore;
  states: ThreadService;
  bus: EventBus;
}): Hono<WorkerEnv> {
  const { threads, states, bus } = deps;
  const app = new Hono<WorkerEnv>();

  app.post("/threads", async (c) => {
    const body = await readBody(c, wire.threadCreate);
    const scope = c.var.caller;
    const threadId = body.thread_id?.toLowerCase() ?? uuidv7();
    const metadata = { ...body.metadata, graph_id: scope.graphId };
    const created = await threads.create(scope, threadId, metadata);
    // An id of our own can only be there already if the answer to the first try was lost.
    const isTaken = created === undefined && body.thread_id != null;
    if (isTaken && body.if_exists !== "do_nothing") {
      throw conflict(`Thread ${threadId} already exists. Use if_exists: "do_nothing" to get it.`);
    }
    if (created !== undefined && body.supersteps != null) {
      const supersteps = body.supersteps.map(({ updates }) =>
        updates.map(({ as_node, ...update }) => ({ ...update, asNode: as_node })),
      );
      try {
        await states.update(scope, threadId, {}, supersteps, clientGone(c));
      } catch (error) {
        await threads.delete(scope, threadId);
        throw error;
      }
    }
    return c.json(await states.known(scope, threadId));
  });

  app.post("/threads/search", async (c) => {
    const body = await readBody(c, wire.threadSearch);
    const { limit, offset } = { limit: body.limit ?? 10, offset: body.offset ?? 0 };
    const rows = await threads.search(c.var.caller, body, limit + 1);
    const found = rows.slice(0, limit);
    // With more to come this is a lower bound: counting all would cost more than the search.
    c.header("x-pagination-total", String(offset + rows.length));
    if (rows.length > limit) c.header("x-pagination-next", String(offset + limit));
    return c.json(body.select == null ? found : found.map((thread) => pick(thread, body.select)));
  });

  app.post("/threads/count", async (c) => {
    const body = await readBody(c, wire.threadCount);
    return c.json(await threads.count(c.var.caller, body));
  });

  app.get("/threads/:thread_id", async (c) =>
    c.json(await states.known(c.var.caller, uuidParameter(c, "thread_id"))),
  );

  app.patch("/threads/:thread_id", async (c) => {
    const threadId = uuidParameter(c, "thread_id");
    const { metadata } = await readBody(c, wire.threadPatch);
    const patched = await threads.patch(c.var.caller, threadId, metadata);
    if (patched === undefined) throw notFound(`Thread ${threadId} not found.`);
    return c.json(patched);
  });

  app.delete("/threads/:thread_id", async (c) => {
    const threadId = uuidParameter(c, "thread_id");
    const active = await threads.delete(c.var.caller, threadId);
    if (active === undefined) throw notFound(`Thread ${threadId} not found.`);
    // Whoever executes them finds that they are gone.
    if (active.length > 0) bus.announceCancelled(active);
    return c.body(null, 204);
  });

  app.post("/threads/:thread_id/copy", async (c) => {
    const threadId = uuidParameter(c, "thread_id");
    const copy = await threads.copy(c.var.caller, threadId, uuidv7());
    if (copy === undefined) throw notFound(`Thread ${threadId} not found.`);
    return c.json(copy);
  });

  app.get("/threads/:thread_id/state", async (c) => {
    const { subgraphs } = readQuery(c, wire.stateQuery);
    const threadId = uuidParameter(c, "thread_id");
    return wireJson(
      c,
      threadState(await states.state(c.var.caller, threadId, {}, subgraphs, clientGone(c))),
    );
  });

  app.get("/threads/:thread_id/state/:checkpoint_id", async (c) => {
    const { subgraphs } = readQuery(c, wire.stateQuery);
    const place = { checkpoint_id: uuidParameter(c, "checkpoint_id") };
    const threadId = uuidParameter(c, "thread_id");
    return wireJson(
      c,
      threadState(await states.state(c.var.caller, threadId, place, subgraphs, clientGone(c))),
    );
  });

  app.post("/threads/:thread_id/state/checkpoint", async (c) => {
    const threadId = uuidParameter(c, "thread_id");
    const { checkpoint, subgraphs } = await readBody(c, wire.stateAtCheckpoint);
    const state = await states.state(
      c.var.caller,
      threadId,
      checkpoint,
      subgraphs ?? false,
      clientGone(c),
    );
    return wireJson(c, threadState(state));
  });

  app.post("/threads/:thread_id/state", async (c) => {
    const threadId = uuidParameter(c, "thread_id");
    const body = await readBody(c, wire.stateUpdate);
    const place = {
      ...body.checkpoint,
      ...(body.checkpoint_id && { checkpoint_id: body.checkpoint_id }),
    };
    const update = { values: body.values ?? null, asNode: body.as_node ?? undefined };
    const checkpoint = await states.update(
      c.var.caller,
      threadId,
      place,
      [[update]],
      clientGone(c),
    );
    return c.json({ checkpoint, configurable: checkpoint });
  });

  const history = async (c: WorkerContext, query: wire.HistoryQuery) => {
    const found = await states.history(
      c.var.caller,
      uuidParameter(c, "thread_id"),
      query,
      clientGone(c),
    );
    return wireJson(c, found.map(threadState));
  };
  app.get("/threads/:thread_id/history", async (c) => history(c, readQuery(c, wire.historyQuery)));
  app.post("/threads/:thread_id/history", async (c) =>
    history(c, await readBody(c, wire.historyQuery)),
  );

  return app;
}

function wireJson(c: WorkerContext, value: unknown): Response {
  return c.body(toWireJson(value), 200, { "content-type": "application/json" });
}

function pick(thread: object, fields: string[] | null | undefined): object {
  return Object.fromEntries(Object.entries(thread).filter(([name]) => fields?.includes(name)));
}
