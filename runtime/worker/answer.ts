import type { ServerResponse } from "node:http";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { HttpError } from "../common/errors.ts";
import type { RunEvent } from "./event-bus.ts";
import type { WorkerContext } from "./request.ts";
import { wireError } from "./wire-json.ts";

/** Keeps idle connections open through proxies; clients ignore both forms. */
const HEARTBEAT_MS = 2_000;
/** A client whose connection takes nothing for this long is given up; as the gateway has it. */
const STALLED_MS = 300_000;

/** nginx's status of a request whose client left: only logs show it. */
const CLIENT_CLOSED_REQUEST = 499 as ContentfulStatusCode;

/** Aborts when the client has gone away, be it before this is asked. */
export function clientGone(c: WorkerContext): AbortSignal {
  const controller = new AbortController();
  const response = c.env.outgoing;
  const abort = () =>
    controller.abort(
      new HttpError(CLIENT_CLOSED_REQUEST, "client_closed_request", "The client has gone away."),
    );
  if (response.destroyed) abort();
  response.once("close", () => {
    if (!response.writableFinished) abort();
  });
  return controller.signal;
}

/**
 * Answers with JSON that is not there yet: 200 and headers at once, so that the client knows its
 * run, a newline as heartbeat every 2 s, then the JSON (LangGraph wire, `wait` and `join`).
 */
export async function sendWhenReady(
  c: WorkerContext,
  headers: Record<string, string>,
  json: Promise<string | undefined>,
): Promise<Response> {
  const response = c.env.outgoing;
  response.writeHead(200, { "content-type": "application/json", ...headers });
  response.flushHeaders();
  const heartbeat = setInterval(() => response.write("\n"), HEARTBEAT_MS);
  try {
    response.end((await json) ?? "{}");
  } catch (error) {
    // The status is sent. The SDKs raise on __error__.
    response.end(JSON.stringify({ __error__: wireError(error) }));
  } finally {
    clearInterval(heartbeat);
  }
  return RESPONSE_ALREADY_SENT;
}

/** Answers with server-sent events as they come, no faster than the client takes them. */
export async function sendEvents(
  c: WorkerContext,
  headers: Record<string, string>,
  events: AsyncIterable<RunEvent>,
): Promise<Response> {
  const response = c.env.outgoing;
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    ...headers,
  });
  response.flushHeaders();
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(": heartbeat\n\n");
  }, HEARTBEAT_MS);
  try {
    for await (const event of events) {
      if (!response.write(frame(event))) await drained(response);
    }
  } catch (error) {
    response.write(`event: error\ndata: ${JSON.stringify(wireError(error))}\n\n`);
  } finally {
    clearInterval(heartbeat);
    response.end();
  }
  return RESPONSE_ALREADY_SENT;
}

function frame({ id, event, data }: RunEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;
}

/** Resolves when the client has taken what was written, is gone, or is given up. */
async function drained(response: ServerResponse): Promise<void> {
  if (response.destroyed) return;
  await new Promise<void>((resolve) => {
    const stalled = setTimeout(() => response.destroy(), STALLED_MS);
    const done = () => {
      clearTimeout(stalled);
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
  });
}
