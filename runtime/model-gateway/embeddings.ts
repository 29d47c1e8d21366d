import type { Tracer } from "@opentelemetry/api";
import { Hono } from "hono";
import { traced } from "../common/telemetry.ts";
import { type Env, type ForwardDependencies, forward, type InferenceEndpoint } from "./forward.ts";
import { parseEmbedding } from "./inference-request.ts";
import { onlyMethod } from "./only-method.ts";

const embeddings: InferenceEndpoint = {
  name: "embeddings",
  kind: "EMBEDDING",
  parse: parseEmbedding,
};

/** `POST /v1/embeddings`. */
export function embeddingRoutes(deps: ForwardDependencies & { tracer: Tracer }): Hono<Env> {
  return new Hono<Env>()
    .post("/", traced(deps.tracer, "EMBEDDING"), (c) => forward(c, deps, embeddings))
    .all("/", onlyMethod("POST"));
}
