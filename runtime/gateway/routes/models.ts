import { Hono } from "hono";
import { openaiError } from "../../common/errors.ts";
import { type AssertionSigner, FRONT_DOOR_HEADER } from "../../common/identity.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { type DoorDeps, forwardTo, observe } from "../proxy/forwarder.ts";
import { answerErrors } from "../request-errors.ts";

export interface ModelsDeps extends DoorDeps {
  modelGateway: URL;
  signer: AssertionSigner;
}

/**
 * The way to the model gateway, which checks the consumer token itself. Our proof beside it keeps
 * both spans of the call in one trace.
 */
export function modelRoutes(deps: ModelsDeps): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  answerErrors(app, openaiError, deps.logger);
  observe(app, deps, "CHAIN");
  app.all("*", async (c) => {
    const proof = { [FRONT_DOOR_HEADER]: await deps.signer.signFrontDoor() };
    return forwardTo(deps, c, "model-gateway", deps.modelGateway, proof);
  });
  return app;
}
