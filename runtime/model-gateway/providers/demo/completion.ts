import { randomUUID } from "node:crypto";
import { estimateTokens } from "../../answer-meter.ts";
import type { ChatRequest, Reply } from "./reply.ts";

/** A chat completion, as the OpenAI wire has it. */
export function completion(request: ChatRequest, reply: Reply): object {
  const message =
    "text" in reply
      ? { role: "assistant", content: reply.text, refusal: null }
      : { role: "assistant", content: null, refusal: null, tool_calls: [reply.toolCall] };
  return {
    ...identity("chat.completion", request),
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason(reply) }],
    usage: usageOf(request, reply),
  };
}

/** The same as chunks: the role, the text word by word or the tool call, the end, the usage. */
export function* completionChunks(request: ChatRequest, reply: Reply): Generator<object> {
  const common = identity("chat.completion.chunk", request);
  const chunk = (delta: object, finish: string | null = null) => ({
    ...common,
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  });
  yield chunk({ role: "assistant", content: "text" in reply ? "" : null });
  if ("text" in reply) {
    for (const word of reply.text.match(/\s*\S+|\s+$/g) ?? []) yield chunk({ content: word });
  } else {
    const { arguments: json, ...named } = reply.toolCall.function;
    yield chunk({
      tool_calls: [{ ...reply.toolCall, index: 0, function: { ...named, arguments: "" } }],
    });
    yield chunk({ tool_calls: [{ index: 0, function: { arguments: json } }] });
  }
  yield chunk({}, finishReason(reply));
  if (request.stream_options?.include_usage) {
    yield { ...common, choices: [], usage: usageOf(request, reply) };
  }
}

function identity(object: string, { model }: ChatRequest) {
  return {
    id: `chatcmpl-demo-${randomUUID()}`,
    object,
    created: Math.floor(Date.now() / 1000),
    model,
  };
}

const finishReason = (reply: Reply) => ("text" in reply ? "stop" : "tool_calls");

function usageOf(request: ChatRequest, reply: Reply) {
  const answer = "text" in reply ? reply.text : JSON.stringify(reply.toolCall.function);
  const prompt_tokens = estimateTokens(Buffer.byteLength(JSON.stringify(request.messages)));
  const completion_tokens = estimateTokens(Buffer.byteLength(answer));
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}
