import { z } from "zod";

/** What a provider counted. */
export interface TokenUsage {
  input: number;
  output: number;
}

const tokenCount = z.int().min(0).max(2_147_483_647);
const reportedUsage = z
  .object({ prompt_tokens: tokenCount, completion_tokens: tokenCount.default(0) })
  .transform(
    (usage): TokenUsage => ({ input: usage.prompt_tokens, output: usage.completion_tokens }),
  );

const key = (name: string) => Buffer.from(`"${name}"`);
const USAGE = key("usage");
const CHOICES = key("choices");
const ERROR = key("error");
const FINISH_REASON = key("finish_reason");
/** The fields that hold what a model wrote. */
const CONTENT = key("content");
const TEXT_KEYS = [
  CONTENT,
  key("arguments"),
  key("reasoning_content"),
  key("reasoning"),
  key("refusal"),
];

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
const BRACKET = 0x5b;
const BRACKET_END = 0x5d;
const SPACE = 0x20;

/**
 * Reads, from the bytes of an answer as they pass, what billing and the trace need. It looks for
 * keys instead of parsing: inside a JSON string a quote is escaped, so `"usage"` with a colon after
 * it can only be a key.
 */
export class AnswerMeter {
  /** What the provider counted, once it said so. The last report wins: some send running totals. */
  usage: TokenUsage | undefined;
  /** Size in bytes of what the model wrote so far, as it stands in the JSON. */
  textBytes = 0;
  /** The answer came to an end of its own: a finish reason, `[DONE]` or an error was seen. */
  ended = false;
  readonly #outputLimit: number;
  #output = "";

  /** @param outputLimit How many characters of the text to keep for the trace; 0 for none. */
  constructor(outputLimit: number) {
    this.#outputLimit = outputLimit;
  }

  /** The beginning of what the model wrote. */
  get output(): string {
    return this.#output;
  }

  /**
   * Looks at one frame of a stream, or at a body.
   *
   * @returns whether it holds the usage and no choice: the chunk that is only sent on request.
   */
  look(bytes: Buffer): boolean {
    for (const textKey of TEXT_KEYS) this.#measureText(bytes, textKey);
    if (!this.ended) this.ended = endsAnswer(bytes);
    const usage = lastUsage(bytes);
    if (usage === undefined) return false;
    this.usage = usage;
    return hasNoChoices(bytes);
  }

  #measureText(bytes: Buffer, textKey: Buffer): void {
    for (let at = bytes.indexOf(textKey); at !== -1; at = bytes.indexOf(textKey, at + 1)) {
      const start = valueAfter(bytes, at + textKey.length);
      if (start === -1 || bytes[start] !== QUOTE) continue;
      const end = stringEnd(bytes, start + 1);
      this.textBytes += end - start - 1;
      if (this.#output.length < this.#outputLimit && textKey === CONTENT) {
        this.#keep(bytes.subarray(start, end + 1));
      }
    }
  }

  #keep(quoted: Buffer): void {
    const text = parsed(quoted.toString());
    if (typeof text === "string") {
      this.#output += text.slice(0, this.#outputLimit - this.#output.length);
    }
  }
}

/** The usual rule of thumb, for when a provider counts nothing: four bytes make a token. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / 4);
}

function endsAnswer(bytes: Buffer): boolean {
  if (bytes.length < 32 && bytes.includes("[DONE]")) return true;
  const finish = firstValue(bytes, FINISH_REASON);
  if (finish !== -1 && bytes[finish] === QUOTE) return true;
  const error = firstValue(bytes, ERROR);
  return error !== -1 && bytes[error] === BRACE;
}

function hasNoChoices(bytes: Buffer): boolean {
  const start = firstValue(bytes, CHOICES);
  return (
    start !== -1 && bytes[start] === BRACKET && bytes[skipSpace(bytes, start + 1)] === BRACKET_END
  );
}

function lastUsage(bytes: Buffer): TokenUsage | undefined {
  for (let at = bytes.lastIndexOf(USAGE); at !== -1; at = lastBefore(bytes, at)) {
    const start = valueAfter(bytes, at + USAGE.length);
    if (start === -1 || bytes[start] !== BRACE) continue;
    const report = parsed(bytes.toString("utf8", start, objectEnd(bytes, start) + 1));
    return reportedUsage.safeParse(report).data;
  }
  return undefined;
}

/** A negative offset would be counted from the end. */
function lastBefore(bytes: Buffer, at: number): number {
  return at === 0 ? -1 : bytes.lastIndexOf(USAGE, at - 1);
}

/** What a provider sends is not ours to trust: text that isn't JSON counts as nothing. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function firstValue(bytes: Buffer, name: Buffer): number {
  const at = bytes.indexOf(name);
  return at === -1 ? -1 : valueAfter(bytes, at + name.length);
}

/** Where the value of a key begins, or -1 where what ends at `at` is no key. */
function valueAfter(bytes: Buffer, at: number): number {
  const colon = skipSpace(bytes, at);
  return bytes[colon] === COLON ? skipSpace(bytes, colon + 1) : -1;
}

function skipSpace(bytes: Buffer, at: number): number {
  let i = at;
  for (let byte = bytes[i]; byte !== undefined && byte <= SPACE; byte = bytes[i]) i++;
  return i;
}

function stringEnd(bytes: Buffer, start: number): number {
  let i = start;
  while (i < bytes.length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1;
  return Math.min(i, bytes.length);
}

function objectEnd(bytes: Buffer, start: number): number {
  let depth = 0;
  for (let i = start; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) i = stringEnd(bytes, i + 1);
    else if (byte === BRACE) depth++;
    else if (byte === BRACE_END && --depth === 0) return i;
  }
  return bytes.length;
}
