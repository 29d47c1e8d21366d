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
  const body = text === "" ? {} : parseJson(text);
  if (isDeeperThan(text, DEPTH_LIMIT)) {
    throw new ValidationError(
      [{ type: "too_deep", loc: ["body"], msg: `nests deeper than ${DEPTH_LIMIT}`, input: null }],
      `Invalid body: it nests deeper than ${DEPTH_LIMIT} levels.`,
    );
  }
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

/** @param text Valid JSON. */
function isDeeperThan(text: string, limit: number): boolean {
  if (text.length < 2 * limit) return false;
  let depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{]|[\]}]/g)) {
    if (token === "[" || token === "{") depth += 1;
    else if (token === "]" || token === "}") depth -= 1;
    if (depth > limit) return true;
  }
  return false;
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
  const result = schema.safeParse(query);
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
