import type { z } from "zod";
import type { chatCompletionRequest } from "../../inference-request.ts";
import { chooseTool, type ToolCall } from "./tool-call.ts";

export type ChatRequest = z.output<typeof chatCompletionRequest>;
type Message = ChatRequest["messages"][number];

/** What the demo provider answers: a text, or one tool call. */
export type Reply = { text: string } | { toolCall: ToolCall };

const NOTICE = "This is the demo provider: no model was asked.";
const MAX_ECHO_LENGTH = 500;

/**
 * Calls a tool if the last message of the user mentions one, reports what a tool answered, and else
 * repeats what it was told.
 */
export function reply(request: ChatRequest): Reply {
  const { messages } = request;
  const asked = messages.findLastIndex(({ role }) => role === "user");
  const question = textOf(messages[asked]);
  const results = messages
    .slice(asked + 1)
    .filter(({ role }) => role === "tool" || role === "function");
  if (results.length === 0) {
    const toolCall = chooseTool(request, question);
    if (toolCall !== undefined) return { toolCall };
    return { text: `${NOTICE} You said: ${shortened(question) || "(no text)"}` };
  }
  const reports = results.map(
    (result) => `The tool ${toolName(messages, result)} answered: ${shortened(textOf(result))}`,
  );
  return { text: `${NOTICE} ${reports.join(" ")}` };
}

/** The text of a message; parts that are no text are left out. */
export function textOf(message: Message | undefined): string {
  const content = message?.content ?? "";
  if (typeof content === "string") return content;
  return content
    .map(({ text }) => (typeof text === "string" ? text : ""))
    .join(" ")
    .trim();
}

function toolName(messages: readonly Message[], result: Message): string {
  if (result.name) return result.name;
  const calls = messages.flatMap((message) => message.tool_calls ?? []);
  const call = calls.find(({ id }) => id === result.tool_call_id)?.function;
  const isNamed = typeof call === "object" && call !== null && "name" in call;
  return isNamed ? String(call.name) : "you called";
}

function shortened(text: string): string {
  return text.length > MAX_ECHO_LENGTH ? `${text.slice(0, MAX_ECHO_LENGTH)}…` : text;
}
