import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";

/**
 * The runtime's own `Response`. The Hono server replaces the global one by a class that it writes
 * out itself, whatever its headers say; only an instance of this one is taken as already sent.
 */
const NativeResponse = RESPONSE_ALREADY_SENT.constructor as typeof Response;

const byStatus = new Map<number, Response>();

/**
 * Tells Hono's server that the answer has been written, and the request log with which status.
 * Shared between calls: nobody may change its headers, which no one would get anyway.
 */
export function alreadySent(status: number): Response {
  let response = byStatus.get(status);
  if (response === undefined) {
    response = new NativeResponse(null, { status, headers: RESPONSE_ALREADY_SENT.headers });
    byStatus.set(status, response);
  }
  return response;
}
