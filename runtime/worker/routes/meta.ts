import { createRequire } from "node:module";
import { Hono } from "hono";
import { openapi } from "../openapi.ts";
import type { WorkerEnv } from "../request.ts";

const require = createRequire(import.meta.url);
const { version } = require("../../../package.json");
const langgraph = require("@langchain/langgraph/package.json");

/** What this server is. */
export function metaRoutes(): Hono<WorkerEnv> {
  const app = new Hono<WorkerEnv>();
  const document = JSON.stringify(openapi(version));

  app.get("/info", (c) =>
    c.json({
      version,
      langgraph_js_version: langgraph.version,
      context: "js",
      flags: { assistants: true, crons: false, langsmith: false },
    }),
  );
  app.get("/openapi.json", (c) => c.body(document, 200, { "content-type": "application/json" }));

  return app;
}

/** Probes: open to all, as they say nothing but whether the worker lives and takes calls. */
export function probeRoutes(isReady: () => Promise<boolean>): Hono<WorkerEnv> {
  const app = new Hono<WorkerEnv>();
  app.get("/ok", (c) => c.json({ ok: true }));
  app.get("/live", (c) => c.json({ status: "live" }));
  for (const path of ["/ready", "/health"]) {
    app.get(path, async (c) =>
      (await isReady())
        ? c.json({ status: "ready" })
        : c.json({ status: "not ready" }, 503, { "retry-after": "1" }),
    );
  }
  return app;
}
