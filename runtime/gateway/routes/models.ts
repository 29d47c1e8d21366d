import { Hono } from "hono";
import { openaiError } from "../../common/errors.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { type ForwarderDeps, forwardTo, observe } from "../proxy/forwarder.ts";
import { answerErrors } from "../request-errors.ts";

export interface ModelsDeps extends ForwarderDeps {
  modelGateway: URL;
}

/** The way to the model gateway, which checks the consumer token itself. */
export function modelRoutes(deps: ModelsDeps): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  answerErrors(app, openaiError, deps.logger);
  observe(app, deps, "CHAIN");
  app.all("*", (c) => forwardTo(deps, c, "model-gateway", deps.modelGateway, {}));
  return app;
}
