import { inspect } from "node:util";

/**
 * JSON as the LangGraph SDKs read it: a LangChain message becomes its plain dictionary
 * (`{"type": "ai", "content": …}`) instead of LangChain's serialisation of the class.
 */
export function toWireJson(value: unknown): string {
  return JSON.stringify(value, plainMessage) ?? "null";
}

/** An error as a run reports it: `{"error": class name, "message"}`. */
export function wireError(error: unknown): { error: string; message: string } {
  if (error instanceof Error) return { error: error.name, message: error.message };
  return { error: "Error", message: typeof error === "string" ? error : inspect(error) };
}

// JSON.stringify hands over the result of a message's toJSON; its holder still has the message.
function plainMessage(this: Record<string, unknown>, key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const original = this[key];
  if (!hasDict(original)) return value;
  const { type, data } = original.toDict();
  return { ...data, type };
}

function hasDict(value: unknown): value is { toDict(): { type: string; data: object } } {
  return (
    typeof value === "object" &&
    value !== null &&
    "toDict" in value &&
    typeof value.toDict === "function"
  );
}
