import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { HttpError, tooLarge } from "../common/errors.ts";
import { InvalidRequest } from "./invalid-request.ts";

/**
 * Reads a JSON object.
 *
 * @throws HttpError 413 beyond `limitBytes`, 415 for a compressed body; InvalidRequest for what is
 *   not a JSON object.
 */
export async function readJsonObject(
  incoming: IncomingMessage,
  limitBytes: number,
): Promise<Record<string, unknown>> {
  const encoding = incoming.headers["content-encoding"] ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    throw new HttpError(415, "unsupported_encoding", `Send the body without ${encoding} encoding.`);
  }
  const bytes = await readBytes(incoming, limitBytes);
  if (bytes.length === 0) throw new InvalidRequest("", "The request has no body. Send JSON.");
  if (!isUtf8(bytes)) throw new InvalidRequest("", "The body is not valid UTF-8.");
  const body = parseJson(bytes.toString());
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new InvalidRequest("", "The body must be a JSON object.");
  }
  return body as Record<string, unknown>;
}

async function readBytes(incoming: IncomingMessage, limitBytes: number): Promise<Buffer> {
  if (Number(incoming.headers["content-length"]) > limitBytes) throw tooLarge(limitBytes);
  const pieces: Buffer[] = [];
  let size = 0;
  // The connection outlives a refusal: the server drains what is still coming.
  for await (const piece of incoming.iterator({ destroyOnReturn: false })) {
    size += piece.length;
    if (size > limitBytes) throw tooLarge(limitBytes);
    pieces.push(piece);
  }
  return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces, size);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new InvalidRequest("", `The body is not valid JSON: ${reason}`, "invalid_json");
  }
}
