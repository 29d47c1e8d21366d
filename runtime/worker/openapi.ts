import { z } from "zod";
import * as wire from "./wire.ts";

type Method = "get" | "post" | "patch" | "delete";

/** One line an operation: method, path, summary, body. */
const OPERATIONS: [Method, string, string, z.ZodType?][] = [
  ["post", "/runs/wait", "Run on a thread of its own and wait for the state", wire.runCreate],
  ["post", "/runs/stream", "Run on a thread of its own and stream events", wire.runCreate],
  ["post", "/runs", "Run in the background", wire.runCreate],
  ["post", "/runs/batch", "Start several runs in the background", wire.runBatch],
  ["post", "/runs/cancel", "Cancel runs of a thread", wire.runCancelMany],
  ["get", "/runs/{run_id}/stream", "Follow a run's events"],
  ["get", "/runs/{run_id}/join", "Wait for a run's state"],
  ["post", "/threads", "Create a thread", wire.threadCreate],
  ["post", "/threads/search", "Search threads", wire.threadSearch],
  ["post", "/threads/count", "Count threads", wire.threadCount],
  ["get", "/threads/{thread_id}", "Get a thread"],
  ["patch", "/threads/{thread_id}", "Merge metadata into a thread's", wire.threadPatch],
  ["delete", "/threads/{thread_id}", "Delete a thread with its runs and states"],
  ["post", "/threads/{thread_id}/copy", "Copy a thread"],
  ["get", "/threads/{thread_id}/state", "Get the latest state"],
  ["post", "/threads/{thread_id}/state", "Update the state by hand", wire.stateUpdate],
  ["get", "/threads/{thread_id}/state/{checkpoint_id}", "Get an earlier state"],
  ["post", "/threads/{thread_id}/state/checkpoint", "Get an earlier state", wire.stateAtCheckpoint],
  ["get", "/threads/{thread_id}/history", "List earlier states"],
  ["post", "/threads/{thread_id}/history", "List earlier states", wire.historyQuery],
  ["get", "/threads/{thread_id}/runs", "List a thread's runs"],
  ["post", "/threads/{thread_id}/runs", "Run in the background", wire.runCreate],
  ["post", "/threads/{thread_id}/runs/wait", "Run and wait for the state", wire.runCreate],
  ["post", "/threads/{thread_id}/runs/stream", "Run and stream events", wire.runCreate],
  ["get", "/threads/{thread_id}/runs/{run_id}", "Get a run"],
  ["delete", "/threads/{thread_id}/runs/{run_id}", "Delete a run that is over"],
  ["get", "/threads/{thread_id}/runs/{run_id}/join", "Wait for a run's state"],
  ["get", "/threads/{thread_id}/runs/{run_id}/stream", "Follow a run's events"],
  ["post", "/threads/{thread_id}/runs/{run_id}/cancel", "Cancel a run"],
  ["post", "/assistants/search", "Search assistants", wire.assistantSearch],
  ["post", "/assistants/count", "Count assistants", wire.assistantSearch],
  ["get", "/assistants/{assistant_id}", "Get an assistant"],
  ["get", "/assistants/{assistant_id}/graph", "Get an assistant's graph"],
  ["get", "/info", "What this server is"],
];

/** The OpenAPI 3.1 description of the worker, made from the schemas that validate its bodies. */
export function openapi(version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const [method, path, summary, body] of OPERATIONS) {
    paths[path] = { ...paths[path], [method]: operation(path, summary, body) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Platform agent worker", version, description: "LangGraph wire." },
    security: [{ bearer: [] }],
    paths,
    components: { securitySchemes: { bearer: { type: "http", scheme: "bearer" } } },
  };
}

function operation(path: string, summary: string, body: z.ZodType | undefined): object {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  return {
    summary,
    parameters: [
      { name: "X-Graph-ID", in: "header", required: true, schema: { type: "string" } },
      ...names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
    ],
    ...(body && {
      requestBody: {
        required: true,
        content: { "application/json": { schema: jsonSchema(body) } },
      },
    }),
    responses: {
      "200": { description: "Done" },
      "401": { description: "No or wrong identity" },
      "404": { description: "Not found" },
      "422": { description: "The request names a field that is missing or wrong" },
    },
  };
}

function jsonSchema(schema: z.ZodType): object {
  return z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
}
