import { Hono } from "hono";
import { ASSERTION_HEADER } from "../common/identity.ts";
import type { IdentifyCaller } from "./caller.ts";
import type { Env } from "./forward.ts";
import type { Model } from "./model-list.ts";
import { onlyMethod } from "./only-method.ts";

/** `GET /v1/models`: what the configured providers offer, by the ids that calls name. */
export function modelRoutes(deps: {
  identify: IdentifyCaller;
  listModels(): Promise<Model[]>;
}): Hono<Env> {
  return new Hono<Env>()
    .get("/", async (c) => {
      const caller = await deps.identify(
        c.req.header("authorization"),
        c.req.header(ASSERTION_HEADER),
      );
      c.set("tenant", caller.tenant);
      return c.json({ object: "list", data: await deps.listModels() });
    })
    .all("/", onlyMethod("GET"));
}
