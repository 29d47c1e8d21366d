import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { csrf } from "hono/csrf";
import { HTTPException } from "hono/http-exception";
import { secureHeaders } from "hono/secure-headers";
import { z } from "zod";
import { HttpError, notFound } from "../../common/errors.ts";
import { type Logger, requestLog } from "../../common/logging.ts";
import { isConnectionLoss } from "../../common/postgres.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { type HostNames, serviceUrls } from "../hosts.ts";
import { requestId, withRequestId } from "../request-id.ts";
import type { RouteTable } from "../route-table.ts";
import { assetRoutes } from "./assets.ts";
import { messagePage } from "./pages/message.ts";
import { tracePage } from "./pages/trace.ts";
import { traceListPage } from "./pages/trace-list.ts";
import { curl, type WelcomeProps, welcomePage } from "./pages/welcome.ts";
import { type ConsoleCredentials, createSessions, isHttps, type Sessions } from "./session.ts";
import { signInRoutes } from "./sign-in.ts";
import type { TraceStore } from "./trace-store.ts";
import { layOut } from "./waterfall.ts";

export interface ConsoleDeps {
  logger: Logger;
  hosts: HostNames;
  credentials: ConsoleCredentials;
  traces: TraceStore;
  routes: RouteTable;
  /** Shown in the ready curl to those who signed in. Only laptops have one. */
  devToken: string | undefined;
  /** The clock, in ms. */
  now: () => number;
}

const FORM_LIMIT_BYTES = 16 * 1024;
const text = z.string().max(200).catch("");
const listQuery = z.object({
  q: text.optional(),
  graph: text.optional(),
  failed: z.literal("1").optional().catch(undefined),
  cursor: z.string().max(60).optional().catch(undefined),
});

/** The console: server-rendered pages, no script at all. */
export function consoleApp(deps: ConsoleDeps): Hono<GatewayEnv> {
  const sessions = createSessions(deps.credentials, deps.now);
  const app = new Hono<GatewayEnv>();
  answerErrorsWithPages(app, deps.logger, sessions);
  app.use(requestId(), requestLog(deps.logger), pageHeaders());
  app.use(csrf(), bodyLimit({ maxSize: FORM_LIMIT_BYTES }));
  app.route("/", assetRoutes());
  app.get("/", async (c) => {
    // On its own host the traces are all there is.
    if (hostnameOf(c) === deps.hosts.traces) return c.redirect("/traces", 303);
    return c.html(welcomePage(welcomeProps(c, deps, await sessions.isOpen(c))));
  });
  app.route("/", signInRoutes({ sessions, now: deps.now }));
  app.use("/traces/*", signedInOnly(sessions));
  app.get("/traces", async (c) => {
    const query = listQuery.parse(c.req.query());
    const filter = {
      text: query.q?.trim(),
      graphId: query.graph,
      failedOnly: query.failed !== undefined,
    };
    const [page, graphIds] = await Promise.all([
      deps.traces.list(filter, query.cursor),
      deps.traces.graphIds(),
    ]);
    const props = { page, filter, graphIds, now: deps.now(), older: query.cursor !== undefined };
    return c.html(traceListPage({ ...props, curl: curl(welcomeProps(c, deps, true)) }));
  });
  app.get("/traces/:traceId{[0-9a-f]{32}}", async (c) => {
    const traceId = c.req.param("traceId");
    const { spans, total } = await deps.traces.spansOf(traceId);
    if (total === 0) {
      throw notFound("No trace has this id. Traces are kept for a week, and appear with a delay.");
    }
    return c.html(tracePage({ traceId, rows: layOut(spans), total }));
  });
  return app;
}

function welcomeProps(c: Context, deps: ConsoleDeps, signedIn: boolean): WelcomeProps {
  return {
    signedIn,
    urls: serviceUrls(c.req.url, isHttps(c), deps.hosts),
    graphIds: deps.routes.graphIds(),
    devToken: deps.devToken,
  };
}

function hostnameOf(c: Context): string {
  return new URL(c.req.url).hostname;
}

function signedInOnly(sessions: Sessions): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    if (await sessions.isOpen(c)) return next();
    const { pathname, search } = new URL(c.req.url);
    return c.redirect(`/sign-in?next=${encodeURIComponent(pathname + search)}`, 303);
  };
}

/** No script, no frame, nothing from elsewhere: a span's text can do no harm even if it got through. */
function pageHeaders(): MiddlewareHandler<GatewayEnv> {
  const secure = secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'"],
      formAction: ["'self'"],
      baseUri: ["'none'"],
      frameAncestors: ["'none'"],
    },
    // Whether the name is to be reached by TLS only is for whoever terminates TLS to say.
    strictTransportSecurity: false,
    // `no-referrer` would also take the Origin from forms, which tells our own from others'.
    referrerPolicy: "same-origin",
    xFrameOptions: "DENY",
  });
  return async (c, next) => {
    await secure(c, next);
    if (!c.res.headers.has("cache-control")) c.res.headers.set("cache-control", "no-store");
    withRequestId(c, c.res);
  };
}

function answerErrorsWithPages(app: Hono<GatewayEnv>, logger: Logger, sessions: Sessions): void {
  app.notFound(async (c) =>
    c.html(
      messagePage("Not found", "There is nothing at this address.", await sessions.isOpen(c)),
      404,
    ),
  );
  app.onError(async (error, c) => {
    const signedIn = await sessions.isOpen(c);
    if (error instanceof HttpError) {
      const title = error.status === 404 ? "Not found" : "That did not work";
      return c.html(messagePage(title, error.message, signedIn), error.status);
    }
    if (error instanceof HTTPException) {
      const message = "The request was refused. Go back, load the page again and retry.";
      return c.html(messagePage("Refused", message, signedIn), error.status);
    }
    logger.error({ request_id: c.get("requestId"), err: error }, "console page failed");
    return isConnectionLoss(error)
      ? c.html(messagePage("Try again shortly", "The database does not answer.", signedIn), 503)
      : c.html(messagePage("Something broke", "The gateway's log has details.", signedIn), 500);
  });
}
