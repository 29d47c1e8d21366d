import { Hono } from "hono";
import type { JWK } from "jose";
import { agentProtocolError } from "../common/errors.ts";
import { type ConsoleDeps, consoleApp } from "./console/app.ts";
import type { GatewayEnv } from "./gateway-env.ts";
import { createDoorkeeper, type Door, type HostNames, refuseSeveralHosts } from "./hosts.ts";
import { answerErrors } from "./request-errors.ts";
import { type AgentsDeps, agentRoutes } from "./routes/agents.ts";
import { keySetRoutes } from "./routes/key-set.ts";
import { type ModelsDeps, modelRoutes } from "./routes/models.ts";
import { probeRoutes, type Readiness } from "./routes/probes.ts";
import { type ToolsDeps, toolRoutes } from "./routes/tools.ts";
import { traceUiRoutes } from "./routes/traces.ts";

export interface GatewayDeps extends AgentsDeps, ModelsDeps, ToolsDeps {
  hosts: HostNames;
  readiness: Readiness;
  console: Omit<ConsoleDeps, "hasTraceUi">;
  /** A tracing UI that takes the place of the console's own traces. */
  traceUi: URL | undefined;
  /** The keys that tokens of our own are checked with, published for others; JWKs. */
  publicKeys: readonly JWK[];
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
  const { traceUi, routes } = deps;
  const doorFor = createDoorkeeper(deps.hosts, (host) => routes.serves(host));
  const consoleRoutes = consoleApp({ ...deps.console, hasTraceUi: traceUi !== undefined });
  const doors: Record<Door, Hono<GatewayEnv>> = {
    agents: agentRoutes(deps),
    models: modelRoutes(deps),
    tools: toolRoutes(deps),
    console: consoleRoutes,
    traces: traceUi === undefined ? consoleRoutes : traceUiRoutes(deps, traceUi),
  };
  const app = new Hono<GatewayEnv>();
  answerErrors(app, agentProtocolError, deps.logger);
  app.route("/", probeRoutes(deps.readiness));
  app.route("/", keySetRoutes(deps.publicKeys));
  app.all("*", (c) => {
    // Called in-process, there is no connection.
    refuseSeveralHosts(c.env?.incoming?.rawHeaders ?? []);
    return doors[doorFor(c.req.url, c.req.path)].fetch(c.req.raw, c.env);
  });
  return app;
}
