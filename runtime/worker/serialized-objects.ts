import { load } from "@langchain/core/load";
import { isBaseMessage } from "@langchain/core/messages";
import { ValidationError } from "../common/errors.ts";

/** Messages, which clients may send in LangChain's own serialisation. */
const MESSAGE_CLASS = /^(?:AI|Human|System|Tool|Function|Chat|Remove)Message(?:Chunk)?$/;

interface Found {
  place: (string | number)[];
  record: object;
}

/**
 * Refuses a body that pretends to hold serialised objects: what reads a thread's state makes them
 * real, so that a client could have any class of LangChain constructed in this process, leave a
 * state behind that nobody can read again, or find another value there than it sent. Messages are
 * welcome. A key `__proto__` is refused wherever it is: JSON has it as any other, and where it is
 * copied by assignment it becomes the prototype, which can make such an object complete.
 *
 * @param text The body's JSON.
 * @throws ValidationError 422 that names the place.
 */
export async function refuseSerializedObjects(body: unknown, text: string): Promise<void> {
  // Keys may be written with escapes.
  if (!['"lc"', '"__proto__"', "\\u"].some((hint) => text.includes(hint))) return;
  for (const { place, record } of serializedObjects(body)) {
    if (await isMessage(record)) continue;
    const msg = "must not be a serialised object other than a message of LangChain";
    throw refusal("serialized_object", place, msg, record);
  }
}

function refusal(type: string, place: Found["place"], msg: string, input: unknown) {
  return new ValidationError(
    [{ type, loc: ["body", ...place], msg, input }],
    `Invalid body: ${place.join(".")} ${msg}.`,
  );
}

/** A value of the body and the way to it, linked so that a wide and deep body costs no more memory. */
interface Step {
  value: object;
  key: string | number;
  parent: Step | undefined;
}

function* serializedObjects(body: unknown): Generator<Found> {
  const open: Step[] = isObject(body) ? [{ value: body, key: "", parent: undefined }] : [];
  for (let step = open.pop(); step !== undefined; step = open.pop()) {
    const { value } = step;
    if (isSerialized(value)) yield { place: placeOf(step), record: value };
    const isList = Array.isArray(value);
    for (const [key, entry] of Object.entries(value)) {
      if (key === "__proto__") {
        const msg = "must not be a key of an object";
        throw refusal("prototype", [...placeOf(step), key], msg, entry);
      }
      if (isObject(entry))
        open.push({ value: entry, key: isList ? Number(key) : key, parent: step });
    }
  }
}

function placeOf(step: Step): (string | number)[] {
  const place: (string | number)[] = [];
  for (let at: Step | undefined = step; at?.parent !== undefined; at = at.parent)
    place.push(at.key);
  return place.reverse();
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** The types of JsonPlusSerializer's own form, `lc: 2`: a Set or Map, a RegExp, undefined… */
const OWN_TYPES: readonly unknown[] = ["constructor", "undefined", "delta_snapshot"];

function isSerialized(value: object): boolean {
  if (!("lc" in value && "type" in value)) return false;
  return isLangChains(value) || (value.lc === 2 && OWN_TYPES.includes(value.type));
}

function isLangChains(value: object): value is { id: unknown[] } {
  return (
    "lc" in value &&
    value.lc === 1 &&
    "type" in value &&
    value.type === "constructor" &&
    "id" in value &&
    Array.isArray(value.id)
  );
}

async function isMessage(record: object): Promise<boolean> {
  if (!isLangChains(record)) return false;
  const [library, module, name] = record.id;
  const isNamed =
    record.id.length === 3 &&
    library === "langchain_core" &&
    module === "messages" &&
    typeof name === "string" &&
    MESSAGE_CLASS.test(name);
  if (!isNamed) return false;
  try {
    return isBaseMessage(await load(JSON.stringify(record)));
  } catch {
    // Whoever reads the state would fail in the same way.
    return false;
  }
}
