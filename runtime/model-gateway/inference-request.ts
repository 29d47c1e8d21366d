import { z } from "zod";
import { InvalidRequest, invalidBody } from "./invalid-request.ts";

/** A checked request, ready to be sent to the provider that serves its model. */
export interface InferenceRequest {
  /** The model id as the client wrote it. */
  model: string;
  stream: boolean;
  /** Whether the client asked for the usage report of a stream. */
  keepsUsage: boolean;
  /** Size in bytes of the text for the model, for when the provider counts nothing. */
  inputBytes(): number;
  /** The body for the provider. @param model The provider's own name of the model. */
  bodyFor(model: string): Buffer;
}

// Control characters would break log lines, and PostgreSQL's text has no U+0000.
const modelId = z
  .string()
  .min(1, "must not be empty")
  .max(256, "must have at most 256 characters")
  .regex(/^[^\p{Cc}\p{Cs}]+$/u, "must not contain control characters");
const positive = z.int().min(1).nullish();

const message = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: z
    .union([z.string(), z.array(z.looseObject({ type: z.string() }))], {
      error: "must be a string or a list of content parts with a type",
    })
    .nullish(),
  name: z.string().nullish(),
  tool_calls: z.array(z.looseObject({ type: z.string().optional() })).nullish(),
  tool_call_id: z.string().nullish(),
});

const tool = z.looseObject({
  type: z.string(),
  function: z.looseObject({ name: z.string().min(1, "must not be empty") }).optional(),
});

/**
 * The fields that we look at or that change what a call costs. Others pass through: the provider
 * knows its own.
 */
export const chatCompletionRequest = z.looseObject({
  model: modelId,
  messages: z.array(message).min(1, "must hold at least one message"),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  tools: z.array(tool).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })]).nullish(),
  n: positive,
  max_tokens: positive,
  max_completion_tokens: positive,
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  response_format: z.looseObject({ type: z.string() }).nullish(),
  user: z.string().nullish(),
});

const tokens = z.array(z.int().min(0)).min(1, "must not be empty");

/** `input` is a text, a list of texts, the tokens of one, or a list of such. */
export const embeddingRequest = z.looseObject({
  model: modelId,
  input: z.union([z.string().min(1), z.array(z.string()).min(1), tokens, z.array(tokens).min(1)], {
    error: "must be a text, a list of texts, or lists of tokens, and not empty",
  }),
  encoding_format: z.enum(["float", "base64"]).nullish(),
  dimensions: positive,
  user: z.string().nullish(),
});

type Body = Record<string, unknown>;

/** @throws InvalidRequest that names the wrong field. */
export function parseChatCompletion(body: Body): InferenceRequest {
  refuseOddCase(body, Object.keys(chatCompletionRequest.shape), "");
  const result = chatCompletionRequest.safeParse(body);
  if (!result.success) throw invalidBody(result.error, body);
  const { model, messages, stream_options: options } = result.data;
  messages.forEach((entry, index) => {
    refuseOddCase(entry, Object.keys(message.shape), `messages.${index}.`);
  });
  refuseOddCase(options ?? {}, ["include_usage"], "stream_options.");
  const stream = result.data.stream ?? false;
  return {
    model,
    stream,
    keepsUsage: options?.include_usage ?? false,
    inputBytes: () => textBytes(messages.map(({ content }) => content)) + textBytes(body.tools),
    bodyFor: (name) =>
      encoded({
        ...body,
        model: name,
        ...(stream && { stream_options: { ...options, include_usage: true } }),
      }),
  };
}

/** @throws InvalidRequest that names the wrong field. */
export function parseEmbedding(body: Body): InferenceRequest {
  refuseOddCase(body, Object.keys(embeddingRequest.shape), "");
  const result = embeddingRequest.safeParse(body);
  if (!result.success) throw invalidBody(result.error, body);
  const { model, input } = result.data;
  return {
    model,
    stream: false,
    keepsUsage: false,
    inputBytes: () => textBytes(input),
    bodyFor: (name) => encoded({ ...body, model: name }),
  };
}

/**
 * Providers written in Go read `"Model"` as `"model"`, so a second spelling of a field would undo
 * what we checked and set.
 */
function refuseOddCase(object: object, fields: readonly string[], place: string): void {
  for (const name of Object.keys(object)) {
    if (fields.includes(name)) continue;
    // Both ways, because Go also folds the Kelvin sign to k and the long s to s.
    const folded = name.toUpperCase().toLowerCase();
    if (fields.includes(folded)) {
      const field = `${place}${name}`;
      throw new InvalidRequest(field, `Write the field ${field} as ${place}${folded}.`);
    }
  }
}

function encoded(body: Body): Buffer {
  try {
    return Buffer.from(JSON.stringify(body));
  } catch (error) {
    // The parser follows any depth, the serialiser does not.
    if (!(error instanceof RangeError)) throw error;
    throw new InvalidRequest("", "The body is nested too deeply.");
  }
}

const EMBEDDED_FILE = /^data:[^,]{0,100};base64,/;
/** Deeper than any field of the wire. */
const MAX_DEPTH = 16;

/** The bytes of all text inside; embedded files are left out, a number counts as a token. */
function textBytes(value: unknown, depth = 0): number {
  if (typeof value === "string") return EMBEDDED_FILE.test(value) ? 0 : Buffer.byteLength(value);
  if (typeof value === "number") return 4;
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return 0;
  return Object.values(value).reduce((sum: number, inner) => sum + textBytes(inner, depth + 1), 0);
}
