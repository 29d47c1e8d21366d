/** One server-sent event, its data parsed. */
export interface SentEvent {
  id: number;
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: every event has its own shape.
  data: any;
}

/** Reads an event stream to its end, or as far as its reader wants. Comments are left out. */
export async function* sentEvents(response: Response): AsyncGenerator<SentEvent> {
  if (response.body === null) throw new Error("The answer has no body.");
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body) {
    text += decoder.decode(bytes, { stream: true });
    const frames = text.split("\n\n");
    text = frames.pop() ?? "";
    for (const frame of frames) if (!frame.startsWith(":")) yield parse(frame);
  }
  if (text !== "") throw new Error(`The stream ended within an event: ${text}`);
}

function parse(frame: string): SentEvent {
  const fields = new Map(
    frame.split("\n").map((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon), line.slice(colon + 2)];
    }),
  );
  return {
    id: Number(fields.get("id")),
    event: fields.get("event") ?? "",
    data: JSON.parse(fields.get("data") ?? ""),
  };
}

/** Fails unless the ids rise strictly, as a client needs that comes back with the last one. */
export function expectRisingIds(events: readonly SentEvent[]): void {
  events.forEach((event, index) => {
    const before = events[index - 1];
    if (!Number.isInteger(event.id) || (before !== undefined && before.id >= event.id)) {
      throw new Error(`Event ${index} has id ${event.id} after ${before?.id}.`);
    }
  });
}
