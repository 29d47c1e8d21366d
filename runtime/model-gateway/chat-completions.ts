import { Hono } from "hono";
import { type Tracing, traced } from "../common/telemetry.ts";
import { type Env, type ForwardDependencies, forward, type InferenceEndpoint } from "./forward.ts";
import { parseChatCompletion } from "./inference-request.ts";
import { onlyMethod } from "./only-method.ts";

const chatCompletions: InferenceEndpoint = {
  name: "chat/completions",
  kind: "LLM",
  parse: parseChatCompletion,
};

/** `POST /v1/chat/completions`, streamed or not. */
export function chatCompletionRoutes(deps: ForwardDependencies & Tracing): Hono<Env> {
  return new Hono<Env>()
    .post("/", traced(deps.tracer, "LLM", deps.isInnerHop), (c) =>
      forward(c, deps, chatCompletions),
    )
    .all("/", onlyMethod("POST"));
}
