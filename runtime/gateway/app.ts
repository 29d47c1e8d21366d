import { Hono } from "hono";
import { agentProtocolError } from "../common/errors.ts";
import { type ConsoleDeps, consoleApp } from "./console/app.ts";
import type { GatewayEnv } from "./gateway-env.ts";
import { createDoorkeeper, type Door, type HostNames } from "./hosts.ts";
import { answerErrors } from "./request-errors.ts";
import { type AgentsDeps, agentRoutes } from "./routes/agents.ts";
import { type ModelsDeps, modelRoutes } from "./routes/models.ts";
import { probeRoutes, type Readiness } from "./routes/probes.ts";
import { toolRoutes } from "./routes/tools.ts";

export interface GatewayDeps extends AgentsDeps, ModelsDeps {
  hosts: HostNames;
  readiness: Readiness;
  console: ConsoleDeps;
}

/**
 * The one door of the platform: probes first, then what the Host header names.
 *
 * @example
 * ```ts
 * const app = createApp(deps);
 * await app.request("http://agents.localhost/ok");
 * ```
 */
export function createApp(deps: GatewayDeps): Hono<GatewayEnv> {
  const doorFor = createDoorkeeper(deps.hosts);
  const consoleRoutes = consoleApp(deps.console);
  const doors: Record<Door, Hono<GatewayEnv>> = {
    agents: agentRoutes(deps),
    models: modelRoutes(deps),
    tools: toolRoutes(deps),
    console: consoleRoutes,
    traces: consoleRoutes,
  };
  const app = new Hono<GatewayEnv>();
  answerErrors(app, agentProtocolError, deps.logger);
  app.route("/", probeRoutes(deps.readiness));
  app.all("*", (c) => doors[doorFor(c.req.url, c.req.path)].fetch(c.req.raw, c.env));
  return app;
}
