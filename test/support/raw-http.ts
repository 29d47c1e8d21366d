import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { CALL_HEADERS } from "./gateway.ts";

/** Begins a call to an agent on a connection of its own, so that a test can cut it. */
export function send(
  base: URL,
  method: string,
  path: string,
  headers: Record<string, string> = {},
): ClientRequest {
  return request(new URL(path, base), {
    method,
    headers: { ...CALL_HEADERS, host: "agents.localhost", ...headers },
    agent: false,
  });
}

/** Sends a GET with the headers as they are given, names and values in turn, and reads the answer. */
export async function getWith(base: URL, path: string, rawHeaders: readonly string[]) {
  const answer = await answerOf(
    request(new URL(path, base), { headers: rawHeaders, agent: false }).end(),
  );
  return { status: answer.statusCode, body: JSON.parse(await textOf(answer)) };
}

/** Waits for status and headers. */
export async function answerOf(call: ClientRequest): Promise<IncomingMessage> {
  const [answer] = await once(call, "response");
  return answer;
}

/** Waits for the whole body. */
export async function textOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of answer.setEncoding("utf8")) text += chunk;
  return text;
}
