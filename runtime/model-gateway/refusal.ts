import { z } from "zod";
import type { OpenAnswer } from "./upstream.ts";

const MAX_BODY_BYTES = 64 * 1024;
const MAX_MESSAGE_LENGTH = 2_000;

const errorObject = z.looseObject({ message: z.string() });
/** OpenAI's own shape, which most providers use. */
const openaiShape = z.looseObject({ error: errorObject });
/** Gemini wraps it in a list; Ollama's and vLLM's older versions say less. */
const otherShapes = z.union([
  z.tuple([openaiShape]).transform(([first]) => first.error),
  z.object({ error: z.string() }).transform(({ error }) => ({ message: error })),
  errorObject,
]);

/**
 * The body of a provider's 4xx, for the client: as it came where it has the shape that the openai
 * SDKs read, else its message in that shape. The platform's keys are cut out.
 *
 * @param signal Of the call: once it is aborted, nobody waits for the refusal.
 */
export async function readRefusal(
  answer: OpenAnswer,
  providerName: string,
  secrets: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const text = withoutSecrets(await readText(answer, signal), secrets);
  const json = parsed(text);
  if (openaiShape.safeParse(json).success) return text;
  const error = otherShapes.safeParse(json).data;
  const message = (error?.message ?? text.trim()).slice(0, MAX_MESSAGE_LENGTH);
  return JSON.stringify({
    error: {
      message: message || `The provider ${providerName} answered ${answer.status}.`,
      type: "invalid_request_error",
      param: null,
      code: "upstream_refused",
    },
  });
}

/** Replaces every occurrence of the secrets. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((scrubbed, secret) => scrubbed.replaceAll(secret, "[redacted]"), text);
}

async function readText({ first, rest }: OpenAnswer, signal: AbortSignal): Promise<string> {
  const pieces: Buffer[] = [];
  let size = 0;
  try {
    let piece = first;
    while (!piece.done && size < MAX_BODY_BYTES) {
      pieces.push(piece.value);
      size += piece.value.length;
      piece = await rest.next();
    }
    if (!piece.done) await rest.return?.();
  } catch (error) {
    // Refused it is, whether or not the provider got to the end of its reasons.
    if (signal.aborted) throw error;
  }
  return Buffer.concat(pieces).toString();
}

/** A provider's error may be an HTML page: that is no failure of ours. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
