import { Hono, type MiddlewareHandler } from "hono";
import { HttpError } from "../common/errors.ts";
import { ASSERTION_HEADER } from "../common/identity.ts";
import type { IdentifyCaller } from "./caller.ts";
import type { Env } from "./forward.ts";
import type { Model } from "./model-list.ts";
import { onlyMethod } from "./only-method.ts";

/**
 * `GET /v1/models`: what the configured providers offer, by the ids that calls name; and one of them
 * by its id, whose slash SDKs send as it is (Python) or encoded (JavaScript).
 */
export function modelRoutes(deps: {
  identify: IdentifyCaller;
  listModels(): Promise<Model[]>;
}): Hono<Env> {
  const identified: MiddlewareHandler<Env> = async (c, next) => {
    const caller = await deps.identify(
      c.req.header("authorization"),
      c.req.header(ASSERTION_HEADER),
    );
    c.set("tenant", caller.tenant);
    await next();
  };
  return new Hono<Env>()
    .get("/", identified, async (c) => c.json({ object: "list", data: await deps.listModels() }))
    .get("/:id{.+}", identified, async (c) => {
      const id = c.req.param("id");
      const model = (await deps.listModels()).find((listed) => listed.id === id);
      if (model === undefined) throw unknownModel(id);
      return c.json(model);
    })
    .all("*", onlyMethod("GET"));
}

/** As OpenAI says it. */
const unknownModel = (id: string) =>
  new HttpError(404, "model_not_found", `The model ${JSON.stringify(id)} does not exist.`);
