import { Hono } from "hono";
import { agentProtocolError } from "../../common/errors.ts";
import { requestLog } from "../../common/logging.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { isHttps } from "../https.ts";
import { type ForwarderDeps, forwardTo } from "../proxy/forwarder.ts";
import { answerErrors } from "../request-errors.ts";
import { requestId } from "../request-id.ts";

/**
 * The way to a tracing UI of its own: it has its own sign-in, so its cookies pass both ways. Calls
 * to it leave no span, or looking at traces would make more of them.
 */
export function traceUiRoutes(deps: ForwarderDeps, traceUi: URL): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  answerErrors(app, agentProtocolError, deps.logger);
  app.use(requestId());
  app.use(requestLog(deps.logger));
  app.all("*", (c) =>
    forwardTo(deps, c, "trace-ui", traceUi, {
      "x-forwarded-proto": isHttps(c) ? "https" : "http",
    }),
  );
  return app;
}
