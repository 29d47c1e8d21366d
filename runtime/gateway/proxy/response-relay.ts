import type { ServerResponse } from "node:http";
import type { Dispatcher } from "undici";
import { type Destination, downstreamHeaders } from "./headers.ts";
import type { WatchedCall } from "./silence-watch.ts";

/** How the relay of one answer ended. */
export type RelayOutcome =
  /** The whole answer was handed to the client's connection. */
  | { kind: "sent"; status: number }
  /** The client left first; the upstream's connection has been cut. */
  | { kind: "client-gone" }
  /** The upstream broke off within its answer; the client's connection has been cut. */
  | { kind: "truncated"; status: number; error: Error }
  /** The upstream gave no answer and the client has had nothing yet. */
  | { kind: "failed"; error: Error; reachedUpstream: boolean };

/** An undici handler that writes one answer into a client's response as its bytes come. */
export interface ResponseRelay extends WatchedCall {
  handler: Dispatcher.DispatchHandler;
  outcome: Promise<RelayOutcome>;
}

/** What the relay has to know of a call. */
export interface RelayedCall {
  outgoing: ServerResponse;
  destination: Destination;
  upstream: URL;
  /** Headers that the answer gets from us, by lower-case name. */
  responseHeaders: Readonly<Record<string, string>>;
  /** How long the client may take nothing of what waits for it, in ms. Then it has left. */
  stallMs: number;
}

/** Backpressure goes both ways: a client that reads slowly pauses the upstream's socket. */
export function relayResponse(call: RelayedCall): ResponseRelay {
  const { outgoing, destination, upstream, responseHeaders, stallMs } = call;
  const { promise: outcome, resolve } = Promise.withResolvers<RelayOutcome>();
  let controller: Dispatcher.DispatchController | undefined;
  let status: number | undefined;
  let written = false;
  let heardAt = performance.now();
  let paused = false;
  let stalled: NodeJS.Timeout | undefined;

  const waitForClient = () => {
    stalled ??= setTimeout(() => outgoing.destroy(), stallMs);
  };
  const stopWaiting = () => {
    clearTimeout(stalled);
    stalled = undefined;
  };
  const settle = (result: RelayOutcome) => {
    stopWaiting();
    outgoing.off("close", onClose).off("drain", onDrain).off("finish", onFinish);
    resolve(result);
  };
  const onFinish = () => settle({ kind: "sent", status: status ?? outgoing.statusCode });
  const onDrain = () => {
    stopWaiting();
    paused = false;
    heardAt = performance.now();
    controller?.resume();
  };
  const onClose = () => {
    settle({ kind: "client-gone" });
    controller?.abort(new Error("the client went away"));
  };
  outgoing.on("close", onClose).on("drain", onDrain).on("finish", onFinish);

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(started) {
      controller = started;
      // The client may have left while the connection was being made.
      if (outgoing.destroyed) started.abort(new Error("the client went away"));
    },
    onResponseStart(_, code, headers) {
      heardAt = performance.now();
      if (code < 200) return;
      status = code;
      outgoing.writeHead(code, downstreamHeaders(headers, destination, responseHeaders));
      // What comes in one packet leaves in one: headers alone are sent only if the body is late.
      process.nextTick(() => {
        if (!written && !outgoing.writableEnded && !outgoing.destroyed) outgoing.flushHeaders();
      });
    },
    onResponseData(current, chunk) {
      written = true;
      heardAt = performance.now();
      if (outgoing.write(chunk)) return;
      paused = true;
      current.pause();
      waitForClient();
    },
    onResponseEnd() {
      outgoing.end();
      waitForClient();
    },
    onResponseError(_, error) {
      if (status !== undefined) {
        settle({ kind: "truncated", status, error });
        // A clean end would pass a truncated body off as a whole one.
        outgoing.destroy();
      } else if (outgoing.destroyed) {
        settle({ kind: "client-gone" });
      } else {
        settle({ kind: "failed", error, reachedUpstream: controller !== undefined });
      }
    },
  };
  return {
    handler,
    outcome,
    origin: upstream.origin,
    get heardAt() {
      return heardAt;
    },
    get paused() {
      return paused;
    },
    giveUp: (error) => controller?.abort(error),
  };
}
