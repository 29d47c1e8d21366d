/*
 * PostgreSQL's jsonb can't hold U+0000 nor half of a surrogate pair, which JSON can. In their place
 * goes a private-use character followed by their code, so that nothing is lost. The SQL function
 * marked_jsonb does the same to stored JSON.
 */

const MARK = "\ue000";
/** In JSON text: an escaped backslash, an escape that jsonb refuses, or the mark itself. */
const REFUSED = /\\\\|\\u(0000|d[89a-f][0-9a-f]{2})|\ue000/g;
const MARKED = /\ue000([0-9a-f]{4})/g;

/** A value as JSON for a jsonb column or a comparison with one. */
export function jsonb(value: unknown): string {
  return JSON.stringify(value).replace(REFUSED, (found, code: string | undefined) => {
    if (code !== undefined) return `${MARK}${code}`;
    return found === MARK ? `${MARK}e000` : found;
  });
}

/** A value that came from a jsonb column, as it was given to {@link jsonb}. */
export function fromJsonb<T>(value: T): T {
  return unmarked(value) as T;
}

function unmarked(value: unknown): unknown {
  if (typeof value === "string") return unmarkedText(value);
  if (Array.isArray(value)) return value.map(unmarked);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [unmarkedText(key), unmarked(entry)]),
  );
}

function unmarkedText(text: string): string {
  if (!text.includes(MARK)) return text;
  return text.replace(MARKED, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
