import { once } from "node:events";
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { HttpError, openaiErrorBody } from "../common/errors.ts";
import type { AnswerMeter } from "./answer-meter.ts";
import type { CallLife } from "./call-life.ts";
import { SseTap } from "./sse-tap.ts";
import type { OpenAnswer } from "./upstream.ts";

/** How an answer goes to the client. */
export interface RelayOptions {
  answer: OpenAnswer;
  outgoing: ServerResponse;
  headers: OutgoingHttpHeaders;
  meter: AnswerMeter;
  life: CallLife;
  providerName: string;
}

/**
 * A whole answer up to this size is sent when it is complete, so that one which breaks off still
 * becomes a clean error; a larger one (embeddings) goes out as it comes.
 */
const MAX_HELD_BYTES = 1024 * 1024;
/** Where the usage stands in an answer too large to be held: at its end. */
const TAIL_BYTES = 4 * 1024;
/** A client that takes nothing for this long counts as gone: it holds a provider's connection. */
const MAX_STALL_MS = 300_000;

/**
 * Sends a stream on, frame by frame, as fast as the client takes it.
 *
 * @returns the failure that cut it short, if one did; the client has then got an error frame.
 */
export async function relayStream(
  options: RelayOptions & { keepsUsage: boolean },
): Promise<HttpError | undefined> {
  const { answer, outgoing, meter, life } = options;
  const tap = new SseTap(meter, options.keepsUsage);
  life.answering();
  outgoing.writeHead(200, { ...options.headers, "cache-control": "no-cache" });
  let broken = false;
  try {
    for (let piece = answer.first; !piece.done; piece = await answer.rest.next()) {
      for (const bytes of tap.push(piece.value)) await write(outgoing, bytes, life);
    }
  } catch (error) {
    if (life.givenUp() !== undefined) throw error;
    broken = true;
  }
  const left = tap.end();
  if (!broken && meter.ended) {
    for (const bytes of left) outgoing.write(bytes);
    outgoing.end();
    return undefined;
  }
  // A half frame in `left` is dropped: the error must be a frame of its own, and the last one.
  const failure = brokenOff(options.providerName);
  outgoing.end(`data: ${JSON.stringify(openaiErrorBody(failure))}\n\n`);
  return failure;
}

/**
 * Sends an answer that is no stream.
 *
 * @returns the failure that cut it short once its first byte was sent, if one did.
 * @throws HttpError 502 where it broke off before that.
 */
export async function relayWhole(options: RelayOptions): Promise<HttpError | undefined> {
  const { answer, outgoing, meter, life } = options;
  const held: Buffer[] = [];
  let heldBytes = 0;
  try {
    for (let piece = answer.first; !piece.done; piece = await answer.rest.next()) {
      held.push(piece.value);
      heldBytes += piece.value.length;
      if (heldBytes > MAX_HELD_BYTES) return await relayLarge(options, held);
    }
  } catch (error) {
    if (life.givenUp() !== undefined) throw error;
    throw brokenOff(options.providerName, error);
  }
  const body = Buffer.concat(held, heldBytes);
  if (body.length === 0) throw brokenOff(options.providerName);
  meter.look(body);
  life.answering();
  outgoing.writeHead(200, { ...options.headers, "content-length": body.length });
  outgoing.end(body);
  return undefined;
}

async function relayLarge(
  { answer, outgoing, headers, meter, life, providerName }: RelayOptions,
  held: Buffer[],
): Promise<HttpError | undefined> {
  life.answering();
  outgoing.writeHead(200, headers);
  let tail: Buffer = Buffer.alloc(0);
  try {
    for (const bytes of held) {
      meter.look(bytes);
      await write(outgoing, bytes, life);
    }
    for (let piece = await answer.rest.next(); !piece.done; piece = await answer.rest.next()) {
      const joined = Buffer.concat([tail, piece.value]);
      tail = joined.subarray(Math.max(0, joined.length - TAIL_BYTES));
      await write(outgoing, piece.value, life);
    }
  } catch (error) {
    if (life.givenUp() !== undefined) throw error;
    // Half a JSON body can't carry an error; a broken connection is what clients notice.
    outgoing.destroy();
    return brokenOff(providerName, error);
  }
  meter.look(tail);
  outgoing.end();
  return undefined;
}

/** Waits while the client is slow; the provider is read no further meanwhile. */
async function write(outgoing: ServerResponse, bytes: Buffer, life: CallLife): Promise<void> {
  life.signal.throwIfAborted();
  if (outgoing.write(bytes)) return;
  const stalled = setTimeout(() => outgoing.destroy(), MAX_STALL_MS);
  try {
    await once(outgoing, "drain", { signal: life.signal });
  } finally {
    clearTimeout(stalled);
  }
}

function brokenOff(providerName: string, cause?: unknown): HttpError {
  const message = `The provider ${providerName} broke off its answer.`;
  return new HttpError(502, "upstream_broke_off", message, { cause });
}
