import { Hono } from "hono";
import { agentProtocolError, HttpError } from "../../common/errors.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { type DoorDeps, forwardTo, observe } from "../proxy/forwarder.ts";
import { answerErrors } from "../request-errors.ts";

export interface ToolsDeps extends DoorDeps {
  /** Undefined where no tool gateway is installed. */
  toolGateway: URL | undefined;
}

/** The way to the tool gateway, which checks the token itself. */
export function toolRoutes(deps: ToolsDeps): Hono<GatewayEnv> {
  const { toolGateway } = deps;
  const app = new Hono<GatewayEnv>();
  answerErrors(app, agentProtocolError, deps.logger);
  observe(app, deps, "CHAIN");
  app.all("*", (c) => {
    if (toolGateway === undefined) {
      throw new HttpError(
        503,
        "not_installed",
        "The tool gateway is not installed on this platform, so agents have no tools from MCP here.",
      );
    }
    return forwardTo(deps, c, "tool-gateway", toolGateway, {});
  });
  return app;
}
