/** One event of a stream. */
export interface ServerSentEvent {
  event: string;
  data: string;
}

/**
 * Reads a stream of server-sent events (WHATWG HTML, section 9.2). Comments and ids are left out;
 * an event that the end cuts off is dropped, as the standard says.
 */
export async function* serverSentEvents(
  body: AsyncIterable<Uint8Array>,
): AsyncGenerator<ServerSentEvent> {
  let event = "";
  let data: string[] = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length > 0) yield { event: event || "message", data: data.join("\n") };
      event = "";
      data = [];
      continue;
    }
    const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (field === "event") event = value;
    if (field === "data") data.push(value);
  }
}

/** Lines that ended; CR, LF and CRLF all end one. */
async function* lines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    // A CR at the very end may be half of a CRLF: it waits for the next chunk.
    const parts = rest.split(/\r\n|\n|\r(?!$)/);
    rest = parts.pop() ?? "";
    yield* parts;
  }
  if (rest.endsWith("\r")) yield rest.slice(0, -1);
}
