import { createHash } from "node:crypto";
import type { z } from "zod";
import { estimateTokens } from "../../answer-meter.ts";
import type { embeddingRequest } from "../../inference-request.ts";

type EmbeddingRequest = z.output<typeof embeddingRequest>;

const DEFAULT_DIMENSIONS = 8;
const MAX_DIMENSIONS = 4_096;

/** Vectors made from a hash: the same text always gets the same one, and they mean nothing. */
export function embeddingList(request: EmbeddingRequest): object {
  const dimensions = Math.min(request.dimensions ?? DEFAULT_DIMENSIONS, MAX_DIMENSIONS);
  const texts = textsOf(request.input);
  const tokens = texts.reduce((sum, text) => sum + estimateTokens(Buffer.byteLength(text)), 0);
  return {
    object: "list",
    demo: true,
    model: request.model,
    data: texts.map((text, index) => {
      const vector = vectorOf(text, dimensions);
      const embedding = request.encoding_format === "base64" ? base64(vector) : [...vector];
      return { object: "embedding", index, embedding };
    }),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

function textsOf(input: EmbeddingRequest["input"]): string[] {
  if (typeof input === "string") return [input];
  // A flat list of numbers is one text, given as its tokens.
  if (typeof input[0] === "number") return [input.join(" ")];
  return input.map((entry) => (Array.isArray(entry) ? entry.join(" ") : String(entry)));
}

/** A vector of length 1, as real embeddings are. */
function vectorOf(text: string, dimensions: number): Float32Array {
  const bytes = createHash("shake256", { outputLength: dimensions * 2 })
    .update(text)
    .digest();
  const vector = Float32Array.from(
    { length: dimensions },
    (_, i) => bytes.readInt16LE(i * 2) + 0.5,
  );
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}

function base64(vector: Float32Array): string {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64");
}
