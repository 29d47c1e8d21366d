import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";

/**
 * The runtime's own `Response`. The Hono server replaces the global one by a class that it writes
 * out itself, whatever its headers say; only an instance of this one is taken as already sent.
 */
const NativeResponse = RESPONSE_ALREADY_SENT.constructor as typeof Response;

/** Tells Hono's server that the answer has been written, and the request log with which status. */
export function alreadySent(status: number): Response {
  return new NativeResponse(null, { status, headers: RESPONSE_ALREADY_SENT.headers });
}
