import { Hono } from "hono";
import { requestId } from "hono/request-id";
import { HttpError, notFound, openaiError, unavailable } from "../common/errors.ts";
import { requestLog } from "../common/logging.ts";
import type { Tracing } from "../common/telemetry.ts";
import { chatCompletionRoutes } from "./chat-completions.ts";
import { embeddingRoutes } from "./embeddings.ts";
import { CLIENT_GONE, type Env, type ForwardDependencies } from "./forward.ts";
import type { Model } from "./model-list.ts";
import { modelRoutes } from "./models.ts";
import { type TraceCollector, traceRelayRoutes } from "./trace-relay.ts";

export interface AppDependencies extends ForwardDependencies, Tracing {
  listModels(): Promise<Model[]>;
  /** Where agents' spans go on to, if traces are collected. */
  collector?: TraceCollector | undefined;
  /** False once the program is stopping. */
  isReady(): boolean;
}

/**
 * The model gateway: the OpenAI wire in front of the configured providers. Has to be served by
 * `@hono/node-server`, since answers go straight into the Node response.
 */
export function createApp(deps: AppDependencies): Hono<Env> {
  const app = new Hono<Env>();
  app.use(requestId());
  app.use(requestLog(deps.logger));
  app.onError((error, c) => {
    if (c.env.incoming.readableAborted) return CLIENT_GONE;
    if (!(error instanceof HttpError)) {
      deps.logger.error({ request_id: c.get("requestId"), err: error }, "request failed");
    }
    return openaiError(c, error);
  });
  app.notFound((c) => openaiError(c, notFound(`There is no ${c.req.method} ${c.req.path} here.`)));

  app.get("/live", (c) => c.json({ status: "ok" }));
  app.get("/health", (c) => c.json({ status: "ok" }));
  app.get("/ready", (c) => {
    if (!deps.isReady()) throw unavailable("The model gateway is stopping.");
    return c.json({ status: "ok" });
  });

  app.route("/v1/chat/completions", chatCompletionRoutes(deps));
  app.route("/v1/embeddings", embeddingRoutes(deps));
  app.route("/v1/models", modelRoutes(deps));
  app.route("/otlp/v1/traces", traceRelayRoutes(deps));
  return app;
}
