/**
 * The wire format of protobuf, as far as it is needed to change a field deep inside a message and
 * leave every other byte as it came, known to us or not. Libraries that are here only write OTLP,
 * and one that decodes drops what its schema doesn't know.
 *
 * Source: https://protobuf.dev/programming-guides/encoding/
 */

/** A field as it stands in its message. */
export interface Field {
  number: number;
  /** Tag and value. */
  bytes: Buffer;
  /** What a length-delimited field holds; undefined for numbers. */
  content: Buffer | undefined;
}

/** The bytes are no protobuf message. */
export class MalformedMessage extends Error {}

const VARINT = 0;
const FIXED_64 = 1;
const DELIMITED = 2;
const FIXED_32 = 5;
/** Some readers cut a longer tag, and so would see another field than we. */
const HIGHEST_NUMBER = 2 ** 29 - 1;
/** Far more than spans of a batch or attributes of a span, and few enough to hold. */
const MOST_FIELDS = 50_000;

/** @throws MalformedMessage */
export function* fieldsOf(message: Buffer): Generator<Field> {
  let at = 0;
  let count = 0;
  while (at < message.length) {
    if (++count > MOST_FIELDS) throw new MalformedMessage("it has too many fields");
    const tag = readVarint(message, at);
    const number = Math.floor(tag.value / 8);
    let end = tag.end;
    let content: Buffer | undefined;
    switch (tag.value % 8) {
      case VARINT:
        end = readVarint(message, end).end;
        break;
      case FIXED_64:
        end += 8;
        break;
      case FIXED_32:
        end += 4;
        break;
      case DELIMITED: {
        const length = readVarint(message, end);
        end = length.end + length.value;
        content = message.subarray(length.end, end);
        break;
      }
      default:
        throw new MalformedMessage(`field ${number} has a type that is not in use`);
    }
    if (number === 0 || number > HIGHEST_NUMBER || end > message.length) {
      throw new MalformedMessage(`field ${number} is none, or reaches beyond its message`);
    }
    yield { number, bytes: message.subarray(at, end), content };
    at = end;
  }
}

/**
 * A message with each of its fields of one number changed.
 *
 * @throws MalformedMessage
 */
export function changeFields(
  message: Buffer,
  number: number,
  change: (content: Buffer) => Buffer,
): Buffer {
  return Buffer.concat(
    [...fieldsOf(message)].map((field) =>
      field.number === number && field.content !== undefined
        ? delimited(number, change(field.content))
        : field.bytes,
    ),
  );
}

/** A length-delimited field: text, bytes or a message. */
export function delimited(number: number, content: Buffer | string): Buffer {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  return Buffer.concat([varint(number * 8 + DELIMITED), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}

const LONGEST_VARINT = 10;

function readVarint(message: Buffer, start: number): { value: number; end: number } {
  let value = 0;
  for (let index = 0; index < LONGEST_VARINT; index++) {
    const byte = message[start + index];
    if (byte === undefined) throw new MalformedMessage("it ends within a number");
    value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return { value, end: start + index + 1 };
  }
  throw new MalformedMessage("a number is too long");
}
