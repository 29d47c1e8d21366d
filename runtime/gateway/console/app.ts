import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { csrf } from "hono/csrf";
import { HTTPException } from "hono/http-exception";
import { secureHeaders } from "hono/secure-headers";
import { HttpError, notFound } from "../../common/errors.ts";
import { type Logger, requestLog } from "../../common/logging.ts";
import { isConnectionLoss } from "../../common/postgres.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { type HostNames, serviceUrls } from "../hosts.ts";
import { isHttps } from "../https.ts";
import { requestId, withAnswerHeaders } from "../request-id.ts";
import type { RouteTable } from "../route-table.ts";
import { assetRoutes } from "./assets.ts";
import { messagePage } from "./pages/message.ts";
import { firstCall, type WelcomeProps, welcomePage } from "./pages/welcome.ts";
import { type ConsoleCredentials, createSessions, type Sessions } from "./session.ts";
import { signInRoutes } from "./sign-in.ts";
import type { TraceStore } from "./trace-store.ts";
import { traceRoutes } from "./traces.ts";

export interface ConsoleDeps {
  logger: Logger;
  hosts: HostNames;
  routes: RouteTable;
  /** Shown in the ready curl to those who signed in. Only laptops have one. */
  devToken: string | undefined;
  /** The clock, in ms. */
  now: () => number;
  /** Traces of our own, behind a sign-in of our own. Without them the console only says welcome. */
  own: { credentials: ConsoleCredentials; traces: TraceStore } | undefined;
  /** Whether a tracing UI stands behind the traces' host name. */
  hasTraceUi: boolean;
}

const FORM_LIMIT_BYTES = 16 * 1024;

/** The console: server-rendered pages, no script at all. */
export function consoleApp(deps: ConsoleDeps): Hono<GatewayEnv> {
  const { own } = deps;
  const sessions = own && createSessions(own.credentials, deps.now);
  const app = new Hono<GatewayEnv>();
  answerErrorsWithPages(app, deps.logger, sessions);
  app.use(requestId(), requestLog(deps.logger), pageHeaders());
  app.use(csrf(), bodyLimit({ maxSize: FORM_LIMIT_BYTES }));
  app.route("/", assetRoutes());
  app.get("/", async (c) => {
    // On its own host the traces are all there is.
    if (new URL(c.req.url).hostname === deps.hosts.traces) return c.redirect("/traces", 303);
    return c.html(welcomePage(welcomeProps(c, deps, await sessions?.isOpen(c))));
  });
  if (own !== undefined && sessions !== undefined) {
    app.route("/", signInRoutes({ sessions, now: deps.now }));
    app.use("/traces/*", signedInOnly(sessions));
    const curlFor = (c: Context) => firstCall(welcomeProps(c, deps, true));
    app.route("/traces", traceRoutes({ traces: own.traces, now: deps.now, curlFor }));
  } else {
    app.get("/traces/*", (c) => {
      if (!deps.hasTraceUi) throw notFound("This platform keeps no traces.");
      return c.redirect(`${serviceUrls(c.req.url, isHttps(c), deps.hosts).traces}/`, 303);
    });
  }
  return app;
}

function welcomeProps(c: Context, deps: ConsoleDeps, signedIn: boolean | undefined): WelcomeProps {
  return {
    signedIn,
    urls: serviceUrls(c.req.url, isHttps(c), deps.hosts),
    graphIds: deps.routes.graphIds(),
    devToken: deps.devToken,
  };
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
    withAnswerHeaders(c, c.res);
  };
}

function answerErrorsWithPages(
  app: Hono<GatewayEnv>,
  logger: Logger,
  sessions: Sessions | undefined,
): void {
  app.notFound(async (c) =>
    c.html(
      messagePage("Not found", "There is nothing at this address.", await sessions?.isOpen(c)),
      404,
    ),
  );
  app.onError(async (error, c) => {
    const signedIn = await sessions?.isOpen(c);
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
