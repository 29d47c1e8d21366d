const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** A duration for people: `0 ms`, `0.42 ms`, `38 ms`, `1.24 s`, `3 min 20 s`. */
export function duration(ms: number): string {
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < SECOND_MS) return `${Math.round(ms)} ms`;
  if (ms < MINUTE_MS) return `${(ms / SECOND_MS).toFixed(2)} s`;
  const seconds = Math.round(ms / SECOND_MS);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** How long ago: `just now`, `12 min ago`, `3 h ago`, `2 d ago`. */
export function ago(then: Date, now: number): string {
  const ms = now - then.getTime();
  if (ms < 5 * SECOND_MS) return "just now";
  if (ms < MINUTE_MS) return `${Math.round(ms / SECOND_MS)} s ago`;
  if (ms < HOUR_MS) return `${Math.round(ms / MINUTE_MS)} min ago`;
  if (ms < 48 * HOUR_MS) return `${Math.round(ms / HOUR_MS)} h ago`;
  return `${Math.round(ms / (24 * HOUR_MS))} d ago`;
}

/** `2026-03-04 15:06:07 UTC` */
export function instant(date: Date): string {
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** `12,345` */
export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/**
 * What a run was asked, out of the start of its input: the last message's text where the input
 * holds messages, else the input as it is.
 */
export function inputPreview(input: string): string {
  const contents = [...input.matchAll(/"content":\s*"((?:[^"\\]|\\.)*)/g)];
  const last = contents.at(-1)?.[1];
  if (last === undefined) return input;
  try {
    // HTML knows no U+0000.
    return String(JSON.parse(`"${last}"`)).replaceAll("\0", "\ufffd");
  } catch {
    // Cut within an escape sequence: show it as it stands.
    return last;
  }
}

/** JSON on several lines, anything else as it is. */
export function prettyPrint(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  if (!/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    // Text that only looks like JSON, or JSON that was cut.
    return value;
  }
}
