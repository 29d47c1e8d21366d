import { HttpError } from "../../../common/errors.ts";
import { chatCompletionRequest, embeddingRequest } from "../../inference-request.ts";
import type { UpstreamAnswer, UpstreamCall } from "../../transport.ts";
import { completion, completionChunks } from "./completion.ts";
import { embeddingList } from "./embedding.ts";
import { reply } from "./reply.ts";

/** Answers a call as a provider over HTTP would, byte for byte in the same shapes. */
export async function sendToDemo({ endpoint, body }: UpstreamCall): Promise<UpstreamAnswer> {
  const json: unknown = JSON.parse(String(body));
  if (endpoint === "embeddings") return whole(embeddingList(embeddingRequest.parse(json)));
  if (endpoint === "chat/completions") {
    const request = chatCompletionRequest.parse(json);
    const answer = reply(request);
    return request.stream
      ? {
          status: 200,
          headers: { "content-type": "text/event-stream; charset=utf-8" },
          body: frames(completionChunks(request, answer)),
        }
      : whole(completion(request, answer));
  }
  throw new HttpError(404, "not_found", `The demo provider has no ${endpoint}.`);
}

function whole(body: object): UpstreamAnswer {
  return {
    status: 200,
    headers: { "content-type": "application/json" },
    body: one(Buffer.from(JSON.stringify(body))),
  };
}

async function* one(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

async function* frames(chunks: Iterable<object>): AsyncGenerator<Buffer> {
  for (const chunk of chunks) {
    yield Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`);
    // A turn of the event loop, so that each word goes out on its own and others get theirs.
    await new Promise((resolve) => setImmediate(resolve));
  }
  yield Buffer.from("data: [DONE]\n\n");
}
