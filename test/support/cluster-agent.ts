import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { request } from "undici";
import { z } from "zod";
import { CALLER_TRACE_ID } from "../../runtime/common/telemetry.ts";
import type { Installation } from "./installation.ts";

const HEADERS = { "content-type": "application/json", authorization: "Bearer local-dev-token" };

const spans = z.object({
  data: z.array(
    z.object({
      name: z.string(),
      context: z.object({ trace_id: z.string() }),
      attributes: z.record(z.string(), z.unknown()).nullish(),
    }),
  ),
});

/** Adds `agents/<graphId>.ts` to the checkout: it says one sentence, and takes its time if asked to. */
export async function writeAgent(
  { directory }: Installation,
  graphId: string,
  sentence: string,
): Promise<void> {
  const folder = join(directory, "agents", graphId);
  await mkdir(folder, { recursive: true });
  await writeFile(
    join(directory, "agents", `${graphId}.ts`),
    `import { defineAgent } from "../runtime/common/agent.ts";

export default defineAgent({ graphId: "${graphId}", graph: "./${graphId}/graph.ts:graph" });
`,
  );
  await writeFile(
    join(folder, "graph.ts"),
    `import { setTimeout as delay } from "node:timers/promises";
import { AIMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

export const graph = new StateGraph(MessagesAnnotation)
  .addNode("rest", async ({ messages }) => {
    if (messages.at(-1)?.text === "slowly") await delay(8_000);
    return {};
  })
  .addNode("say", () => ({ messages: [new AIMessage(${JSON.stringify(sentence)})] }))
  .addEdge(START, "rest")
  .addEdge("rest", "say")
  .compile();
`,
  );
}

export async function removeAgent({ directory }: Installation, graphId: string): Promise<void> {
  await rm(join(directory, "agents", `${graphId}.ts`));
  await rm(join(directory, "agents", graphId), { recursive: true });
}

/** A call of the agents' door. */
export async function call(
  { url }: Installation,
  path: string,
  graphId: string,
  body?: unknown,
  options: { headers?: Record<string, string>; timeoutMs?: number } = {},
): Promise<Response> {
  return await fetch(`${url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { ...HEADERS, "x-graph-id": graphId, ...options.headers },
    ...(options.timeoutMs !== undefined && { signal: AbortSignal.timeout(options.timeoutMs) }),
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

/** What an agent answers to a sentence, as text; the status before it where it is not 200. */
export async function ask(
  installation: Installation,
  graphId: string,
  content: string,
): Promise<string> {
  const answer = await call(installation, "/runs/wait", graphId, runBody(graphId, content));
  const text = await answer.text();
  return answer.status === 200 ? text : `${answer.status} ${text}`;
}

export function runBody(graphId: string, content: string) {
  return { assistant_id: graphId, input: { messages: [{ role: "human", content }] } };
}

/**
 * Names of the spans of the trace that the platform began for a caller's own, as Phoenix' interface
 * tells them under the project `Platform`.
 */
export async function spanNames(
  installation: Installation,
  callersTraceId: string,
): Promise<string[]> {
  const encoded = await installation.kubectl(
    ...["get", "secret", "platform-phoenix-credentials", "--namespace", "platform"],
    ...["-o", "jsonpath={.data.PHOENIX_ADMIN_SECRET}"],
  );
  const token = Buffer.from(encoded, "base64").toString();
  const answer = await request(`${installation.url}/v1/projects/Platform/spans?limit=200`, {
    headers: { host: "traces.localhost", authorization: `Bearer ${token}` },
  });
  // The project comes with its first span.
  if (answer.statusCode === 404) return [];
  const { data } = spans.parse(await answer.body.json());
  const root = data.find(({ attributes }) => attributes?.[CALLER_TRACE_ID] === callersTraceId);
  return data
    .filter(({ context }) => context.trace_id === root?.context.trace_id)
    .map(({ name }) => name);
}
