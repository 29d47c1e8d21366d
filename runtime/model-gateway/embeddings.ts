import { Hono } from "hono";
import { type Tracing, traced } from "../common/telemetry.ts";
import { type Env, type ForwardDependencies, forward, type InferenceEndpoint } from "./forward.ts";
import { parseEmbedding } from "./inference-request.ts";
import { onlyMethod } from "./only-method.ts";

const embeddings: InferenceEndpoint = {
  name: "embeddings",
  kind: "EMBEDDING",
  parse: parseEmbedding,
};

/** `POST /v1/embeddings`. */
export function embeddingRoutes(deps: ForwardDependencies & Tracing): Hono<Env> {
  return new Hono<Env>()
    .post("/", traced(deps.tracer, "EMBEDDING", deps.isInnerHop), (c) =>
      forward(c, deps, embeddings),
    )
    .all("/", onlyMethod("POST"));
}
