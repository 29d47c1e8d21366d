import type { BaseMessageChunk } from "@langchain/core/messages";

/** One thing a run tells its listeners: an SSE event name and its data. */
export interface GraphEvent {
  event: string;
  data: unknown;
}

/** Puts message chunks together for stream mode `messages`. */
export class MessageAssembly {
  readonly #partial = new Map<string, BaseMessageChunk>();
  readonly #complete = new Set<string>();

  add([message, metadata]: [BaseMessageChunk, object]): GraphEvent[] {
    const { id } = message;
    if (id === undefined || this.#complete.has(id)) return [];
    const events: GraphEvent[] = [];
    const soFar = this.#partial.get(id);
    if (soFar === undefined) {
      events.push({ event: "messages/metadata", data: { [id]: { metadata } } });
    }
    const isChunk = "concat" in message && typeof message.concat === "function";
    const whole = soFar === undefined || !isChunk ? message : soFar.concat(message);
    this.#partial.set(id, whole);
    events.push({ event: "messages/partial", data: [whole] });
    return events;
  }

  /** The messages of a state that are new in it. */
  complete(values: unknown): GraphEvent | undefined {
    const messages = (values as { messages?: { id?: string }[] } | null)?.messages;
    if (!Array.isArray(messages)) return undefined;
    const fresh = messages.filter(
      (message) => message.id !== undefined && !this.#complete.has(message.id),
    );
    for (const { id } of fresh) if (id !== undefined) this.#complete.add(id);
    return fresh.length > 0 ? { event: "messages/complete", data: fresh } : undefined;
  }
}
