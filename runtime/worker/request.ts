import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type { z } from "zod";
import { ValidationError, validationError } from "../common/errors.ts";
import type { Assertion } from "../common/identity.ts";
import { refuseSerializedObjects } from "./serialized-objects.ts";
import { uuid } from "./wire.ts";

/** What every route of the worker finds in its context. */
export interface WorkerEnv {
  Bindings: HttpBindings;
  Variables: { caller: Assertion; assertion: string; requestId?: string };
}

export type WorkerContext = Context<WorkerEnv>;

/**
 * The body, validated. No body counts as `{}`, as for the SDKs.
 * @throws ValidationError 422 that names the field, or `json_invalid`.
 */
export async function readBody<Schema extends z.ZodType>(
  c: WorkerContext,
  schema: Schema,
): Promise<z.output<Schema>> {
  const text = await c.req.text();
  refuseExcess(text);
  const body = text === "" ? {} : parseJson(text);
  await refuseSerializedObjects(body, text);
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw validationError("body", result.error, body);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const reason = (error as Error).message;
    throw new ValidationError(
      [{ type: "json_invalid", loc: ["body"], msg: `JSON decode error: ${reason}`, input: {} }],
      `Invalid body: it is not JSON (${reason}).`,
    );
  }
}

/** Deeper JSON could be parsed, but neither written again nor stored by PostgreSQL. */
const DEPTH_LIMIT = 500;
/** What one body takes to look through keeps everyone else waiting: a second for a million parts. */
const PART_LIMIT = 200_000;

/** @throws ValidationError 422 where the JSON nests too deeply or has too many parts. */
function refuseExcess(text: string): void {
  const { depth, parts } = extentOf(text);
  if (depth > DEPTH_LIMIT) {
    throw excess("too_deep", `nests deeper than ${DEPTH_LIMIT} levels`);
  }
  if (parts > PART_LIMIT) {
    throw excess("too_many_parts", `has more than ${PART_LIMIT} parts`);
  }
}

function excess(type: string, msg: string): ValidationError {
  return new ValidationError(
    [{ type, loc: ["body"], msg, input: null }],
    `Invalid body: it ${msg}.`,
  );
}

/** How deep JSON nests, and its parts: values, and lists and objects once more. No text is an error. */
function extentOf(text: string): { depth: number; parts: number } {
  let [depth, level, parts] = [0, 0, 1];
  for (let at = 0; at < text.length; at++) {
    switch (text[at]) {
      case '"':
        at = stringEnd(text, at + 1);
        break;
      case "[":
      case "{":
        level += 1;
        depth = Math.max(depth, level);
        parts += 1;
        break;
      case "]":
      case "}":
        level -= 1;
        break;
      case ",":
        parts += 1;
    }
  }
  return { depth, parts };
}

/** Where the quote stands that ends the string. */
function stringEnd(text: string, start: number): number {
  let at = start;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}

/**
 * The query string, validated.
 *
 * @param repeated Parameters that may come more than once, with all their values.
 */
export function readQuery<Schema extends z.ZodType>(
  c: WorkerContext,
  schema: Schema,
  repeated: Record<string, string[] | undefined> = {},
): z.output<Schema> {
  const query = { ...c.req.query(), ...repeated };
  const result = schema.safeParse(query, { reportInput: true });
  if (result.success) return result.data;
  throw validationError("query", result.error, query);
}

/** A path parameter that has to be a UUID. */
export function uuidParameter(c: WorkerContext, name: string): string {
  const value = c.req.param(name);
  const result = uuid.safeParse(value);
  if (result.success) return result.data.toLowerCase();
  throw new ValidationError(
    [{ type: "uuid_parsing", loc: ["path", name], msg: "must be a UUID", input: value }],
    `Invalid path: ${name} must be a UUID.`,
  );
}

const WITHHELD = new Set(["x-api-key", "x-tenant-id", "x-service-key"]);

/** The `x-…` headers that a graph finds in `config.configurable`, as on LangGraph's own server. */
export function configurableHeaders(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => name.startsWith("x-") && !name.startsWith("x-platform-") && !WITHHELD.has(name),
    ),
  );
}
