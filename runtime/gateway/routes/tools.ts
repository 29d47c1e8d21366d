import { Hono } from "hono";
import { agentProtocolError, HttpError } from "../../common/errors.ts";
import type { Logger } from "../../common/logging.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { answerErrors } from "../request-errors.ts";

/** The tool gateway's door while there is no tool gateway behind it. */
export function toolRoutes(deps: { logger: Logger }): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  answerErrors(app, agentProtocolError, deps.logger);
  app.all("*", () => {
    throw new HttpError(
      503,
      "not_installed",
      "The tool gateway is not installed on this platform, so agents have no tools from MCP here.",
    );
  });
  return app;
}
