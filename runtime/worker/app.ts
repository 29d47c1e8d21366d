import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { agentProtocolError, HttpError, notFound, tooLarge } from "../common/errors.ts";
import { ASSERTION_HEADER, type AssertionVerifier } from "../common/identity.ts";
import { type Logger, requestLog } from "../common/logging.ts";
import type { EventBus } from "./event-bus.ts";
import type { Graphs } from "./graphs.ts";
import type { WorkerEnv } from "./request.ts";
import { assistantRoutes } from "./routes/assistants.ts";
import { metaRoutes, probeRoutes } from "./routes/meta.ts";
import { runRoutes } from "./routes/runs.ts";
import { threadRoutes } from "./routes/threads.ts";
import type { RunService } from "./run-service.ts";
import type { RunStore } from "./run-store.ts";
import type { ThreadService } from "./thread-service.ts";
import type { ThreadStore } from "./thread-store.ts";

export interface WorkerDeps {
  verifier: AssertionVerifier;
  graphs: Graphs;
  runs: RunService;
  store: RunStore;
  threads: ThreadStore;
  states: ThreadService;
  bus: EventBus;
  isReady: () => Promise<boolean>;
  /** The worker leaves: that its clients' connections end does not mean that they are gone. */
  isStopping: () => boolean;
  bodyLimitBytes: number;
  logger: Logger;
}

/** The worker: the LangGraph wire for the graphs it serves, to callers the gateway vouches for. */
export function createApp(deps: WorkerDeps): Hono<WorkerEnv> {
  const app = new Hono<WorkerEnv>();
  const graphIds = [...deps.graphs.keys()];

  app.onError((error, c) => {
    const { path } = c.req;
    if (!(error instanceof HttpError)) deps.logger.error({ err: error, path });
    else if (error.cause !== undefined) deps.logger.warn({ err: error.cause, path }, error.message);
    return agentProtocolError(c, error);
  });
  app.notFound((c) =>
    agentProtocolError(
      c,
      notFound(`There is no ${c.req.method} ${c.req.path}. See /openapi.json.`),
    ),
  );
  app.use(async (c, next) => {
    const requestId = c.req.header("x-request-id");
    if (requestId !== undefined) c.set("requestId", requestId);
    await next();
  });
  app.use(requestLog(deps.logger));
  app.route("/", probeRoutes(deps.isReady));
  app.use(async (c, next) => {
    c.set("caller", await deps.verifier.verify(c.req.header(ASSERTION_HEADER), graphIds));
    await next();
  });
  app.use(
    bodyLimit({
      maxSize: deps.bodyLimitBytes,
      onError: (c) => agentProtocolError(c, tooLarge(deps.bodyLimitBytes)),
    }),
  );
  app.route("/", runRoutes(deps));
  app.route("/", threadRoutes(deps));
  app.route("/", assistantRoutes(deps.graphs));
  app.route("/", metaRoutes());
  return app;
}
