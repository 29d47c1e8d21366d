import { lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { Agent, type Dispatcher, request } from "undici";
import { UserError } from "../runtime/common/errors.ts";
import type { Connection } from "./connection.ts";
import { refused, unreachable, wrongServer } from "./front-door-errors.ts";
import { type RunValues, runValues } from "./run-answer.ts";
import { type ServerSentEvent, serverSentEvents } from "./server-sent-events.ts";

/** The platform sends a sign of life every few seconds. Milliseconds. */
const SILENCE_MS = 60_000;

/** A run of an agent. */
export interface RunRequest {
  graphId: string;
  text: string;
  /** Goes on with a thread; without one nothing is kept. */
  threadId: string | undefined;
}

/** The agents' side of the platform. */
export interface FrontDoor {
  /** Runs to the end. */
  wait(run: RunRequest): Promise<RunValues>;
  /** Runs, with the assistant's messages and the state as they come. */
  stream(run: RunRequest): AsyncGenerator<ServerSentEvent>;
  close(): Promise<void>;
}

/**
 * Speaks the LangGraph wire with a front door.
 *
 * @param signal Ends calls; the platform then cancels their runs.
 * @throws UserError, from its methods, with what the platform said.
 */
export function createFrontDoor({ agentsHost, token }: Connection, signal: AbortSignal): FrontDoor {
  const agent = new Agent({
    headersTimeout: SILENCE_MS,
    bodyTimeout: SILENCE_MS,
    connect: { lookup: lookupLocal },
  });

  const start = async (run: RunRequest, how: "wait" | "stream", streamModes?: string[]) => {
    const place = run.threadId === undefined ? "runs" : `threads/${run.threadId}/runs`;
    const url = new URL(`${place}/${how}`, `${agentsHost.href.replace(/\/?$/, "/")}`);
    const response = await request(url, {
      method: "POST",
      dispatcher: agent,
      signal,
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "x-graph-id": run.graphId,
      },
      body: JSON.stringify({
        assistant_id: run.graphId,
        graph_id: run.graphId,
        input: { messages: [{ role: "human", content: run.text }] },
        on_disconnect: "cancel",
        ...(run.threadId !== undefined && { if_not_exists: "create" }),
        ...(streamModes && { stream_mode: streamModes }),
      }),
    });
    const wanted = how === "wait" ? "application/json" : "text/event-stream";
    if (response.statusCode !== 200) throw await refused(response, agentsHost);
    if (!mediaTypeOf(response).startsWith(wanted)) throw wrongServer(agentsHost);
    return response.body;
  };

  const explained = (error: unknown) =>
    error instanceof UserError || signal.aborted ? error : unreachable(error, agentsHost);

  return {
    async wait(run) {
      let text: string;
      try {
        text = await (await start(run, "wait")).text();
      } catch (error) {
        throw explained(error);
      }
      return runValues.parse(JSON.parse(text));
    },
    async *stream(run) {
      try {
        yield* serverSentEvents(await start(run, "stream", ["messages-tuple", "values"]));
      } catch (error) {
        throw explained(error);
      }
    },
    close: () => agent.destroy(),
  };
}

function mediaTypeOf({ headers }: Dispatcher.ResponseData): string {
  return String(headers["content-type"] ?? "");
}

/** Names under localhost are this machine (RFC 6761), also where the resolver does not know it. */
const lookupLocal: LookupFunction = (hostname, options, callback) => {
  lookup(hostname.endsWith(".localhost") ? "localhost" : hostname, options, callback);
};
