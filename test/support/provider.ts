import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** A call that the stand-in provider got. */
export interface ReceivedCall {
  method: string;
  /** Path and query, e.g. `/v1/chat/completions`. */
  path: string;
  headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: tests read what they sent.
  body: any;
  /** Whether the client left before the answer was complete. */
  clientGone: boolean;
  /** Bytes of the answer that were handed to the connection so far. */
  written: number;
}

/** Answers one call. */
export type Behaviour = (call: ReceivedCall, response: ServerResponse) => void | Promise<void>;

/** A provider on loopback that speaks the OpenAI wire and misbehaves on demand. */
export interface StandInProvider {
  /** Base URL, ending in `/v1`. */
  url: string;
  calls: ReceivedCall[];
  /** The next POSTs are answered by these, one each; after them it behaves well again. */
  next(...behaviours: Behaviour[]): void;
  /** What `GET /v1/models` lists. */
  models: string[];
  stop(): Promise<void>;
}

export const STAND_IN_TEXT = "Hello from the stand-in provider.";
export const STAND_IN_USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };

/** Starts one on a free port. */
export async function startProvider(): Promise<StandInProvider> {
  const calls: ReceivedCall[] = [];
  const queue: Behaviour[] = [];
  const models = ["stand-in-large", "stand-in-small"];
  const server = createServer(async (request, response) => {
    const bytes = await buffer(request);
    const call: ReceivedCall = {
      method: request.method ?? "",
      path: request.url ?? "",
      headers: request.headers,
      body: bytes.length === 0 ? undefined : JSON.parse(bytes.toString()),
      clientGone: false,
      written: 0,
    };
    calls.push(call);
    response.on("close", () => {
      call.clientGone = !response.writableFinished;
    });
    if (call.method === "GET") return answers(modelList(models))(call, response);
    await (queue.shift() ?? behavesWell)(call, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    calls,
    models,
    next: (...behaviours) => void queue.push(...behaviours),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** What it does unless told otherwise: a completion, streamed if asked for, or embeddings. */
export const behavesWell: Behaviour = (call, response) => {
  if (call.path.endsWith("/embeddings")) return answers(embeddings(call))(call, response);
  if (call.body.stream) return streams(chunks(call.body))(call, response);
  return answers(chatCompletion(call.body.model))(call, response);
};

/** Answers with JSON (or a text as it is), a status and headers. */
export function answers(
  body: object | string,
  { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {},
): Behaviour {
  return (_call, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
}

/** Sends frames as server-sent events, as fast as the client takes them. */
export function streams(
  frames: Iterable<string | Buffer>,
  { end = "well", headers = {} }: { end?: StreamEnd; headers?: Record<string, string> } = {},
): Behaviour {
  return async (call, response) => {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", ...headers });
    for (const frame of frames) {
      if (response.destroyed) return;
      call.written += Buffer.byteLength(frame);
      if (!response.write(frame)) await drained(response);
    }
    if (end === "hangs") return;
    if (end === "dies") {
      // What was written has to be on its way first, or it would be lost with the connection.
      await new Promise<void>((resolve) => void response.write("", () => resolve()));
      response.destroy();
    } else response.end();
  };
}

/** How a stream ends: in order, by a lost connection, or not at all. */
export type StreamEnd = "well" | "dies" | "hangs";

/** Takes the call and never answers. */
export const hangs: Behaviour = () => {};

/** Drops the connection before the first byte. */
export const dies: Behaviour = (_call, response) => void response.destroy();

/** Sends the headers of an answer and then drops the connection. */
export const diesAfterHeaders: Behaviour = async (_call, response) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": 500 });
  response.flushHeaders();
  await new Promise((resolve) => setImmediate(resolve));
  response.destroy();
};

export const DONE = "data: [DONE]\n\n";
export const frame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

/** One chunk of a chat completion. */
export function chunk(delta: object, finishReason: string | null = null, extra: object = {}) {
  return {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "stand-in",
    choices: [{ index: 0, delta, finish_reason: finishReason }],
    ...extra,
  };
}

export const usageChunk = () => ({ ...chunk({}), choices: [], usage: STAND_IN_USAGE });

/** The frames of a good stream, with usage if the request asks for it, as OpenAI does. */
export function chunks(request: { stream_options?: { include_usage?: boolean } }): string[] {
  const counted = request.stream_options?.include_usage === true;
  const extra = counted ? { usage: null } : {};
  const words = STAND_IN_TEXT.match(/\s*\S+/g) ?? [];
  return [
    frame(chunk({ role: "assistant", content: "" }, null, extra)),
    ...words.map((content) => frame(chunk({ content }, null, extra))),
    frame(chunk({}, "stop", extra)),
    ...(counted ? [frame(usageChunk())] : []),
    DONE,
  ];
}

export function chatCompletion(model: string, message: object = { content: STAND_IN_TEXT }) {
  return {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_700_000_000,
    model,
    choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop" }],
    usage: STAND_IN_USAGE,
  };
}

function embeddings({ body }: ReceivedCall) {
  const inputs = Array.isArray(body.input) ? body.input : [body.input];
  const vector = Float32Array.of(0.25, -0.5, 1);
  const base64 = Buffer.from(vector.buffer).toString("base64");
  return {
    object: "list",
    model: body.model,
    data: inputs.map((_input: unknown, index: number) => ({
      object: "embedding",
      index,
      embedding: body.encoding_format === "base64" ? base64 : [...vector],
    })),
    usage: { prompt_tokens: 5, total_tokens: 5 },
  };
}

function modelList(ids: readonly string[]) {
  const data = ids.map((id) => ({ id, object: "model", created: 1_700_000_000, owned_by: "them" }));
  return { object: "list", data };
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.on("drain", done);
    response.on("close", done);
  });
}
