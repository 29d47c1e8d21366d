import type { Span } from "@opentelemetry/api";
import {
  GRAPH_ID,
  INPUT_MIME_TYPE,
  INPUT_VALUE,
  OUTPUT_MIME_TYPE,
  OUTPUT_VALUE,
  TENANT,
} from "../common/telemetry.ts";
import type { UsageRecord } from "./usage-recorder.ts";

/** How much of a prompt or an answer a span keeps, in characters. */
export const SPAN_TEXT_LIMIT = 4_096;

/** OpenInference's names for what a model call is about. */
const LLM_MODEL_NAME = "llm.model_name";
const LLM_PROVIDER = "llm.provider";
const LLM_TOKEN_COUNT_PROMPT = "llm.token_count.prompt";
const LLM_TOKEN_COUNT_COMPLETION = "llm.token_count.completion";
const LLM_TOKEN_COUNT_TOTAL = "llm.token_count.total";
const EMBEDDING_MODEL_NAME = "embedding.model_name";

/** Whether tokens were counted by us, not by the provider. */
const ESTIMATED = "platform.usage.estimated";

/** Says on a call's span what was asked, what came, and what it cost (OpenInference). */
export function describeInference(
  span: Span,
  usage: UsageRecord,
  text: { kind: "LLM" | "EMBEDDING"; input: string; output: string },
): void {
  span.setAttributes({
    [TENANT]: usage.tenant,
    ...(usage.agent !== null && { [GRAPH_ID]: usage.agent }),
    [text.kind === "LLM" ? LLM_MODEL_NAME : EMBEDDING_MODEL_NAME]: usage.model,
    [LLM_PROVIDER]: usage.provider,
    [LLM_TOKEN_COUNT_PROMPT]: usage.input_tokens,
    [LLM_TOKEN_COUNT_COMPLETION]: usage.output_tokens,
    [LLM_TOKEN_COUNT_TOTAL]: usage.input_tokens + usage.output_tokens,
    [ESTIMATED]: usage.estimated,
    [INPUT_VALUE]: text.input,
    [INPUT_MIME_TYPE]: "application/json",
    ...(text.output !== "" && { [OUTPUT_VALUE]: text.output, [OUTPUT_MIME_TYPE]: "text/plain" }),
  });
}
