import { type Context, Hono } from "hono";
import { z } from "zod";
import { notFound } from "../../common/errors.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { tracePage } from "./pages/trace.ts";
import { traceListPage } from "./pages/trace-list.ts";
import type { TraceStore } from "./trace-store.ts";
import { layOut } from "./waterfall.ts";

export interface TracesDeps {
  traces: TraceStore;
  /** The clock, in ms. */
  now: () => number;
  /** A call that makes a first trace. */
  curlFor: (c: Context) => string;
}

/** PostgreSQL knows no U+0000, so nothing can contain it. */
const text = z
  .string()
  .max(200)
  .transform((words) => words.replaceAll("\0", ""))
  .catch("");
const listQuery = z.object({
  q: text.optional(),
  graph: text.optional(),
  failed: z.literal("1").optional().catch(undefined),
  cursor: z.string().max(60).optional().catch(undefined),
});

/** The list of traces, and each as a waterfall. */
export function traceRoutes({ traces, now, curlFor }: TracesDeps): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  app.get("/", async (c) => {
    const query = listQuery.parse(c.req.query());
    const filter = {
      text: query.q?.trim(),
      graphId: query.graph,
      failedOnly: query.failed !== undefined,
    };
    const [page, graphIds] = await Promise.all([
      traces.list(filter, query.cursor),
      traces.graphIds(),
    ]);
    const props = { page, filter, graphIds, now: now(), older: query.cursor !== undefined };
    return c.html(traceListPage({ ...props, curl: curlFor(c) }));
  });
  app.get("/:traceId{[0-9a-f]{32}}", async (c) => {
    const traceId = c.req.param("traceId");
    const { spans, total } = await traces.spansOf(traceId);
    if (total === 0) {
      throw notFound("No trace has this id. Traces are kept for a week, and appear with a delay.");
    }
    return c.html(tracePage({ traceId, rows: layOut(spans), total }));
  });
  return app;
}
