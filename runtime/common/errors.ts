import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { ZodError } from "zod";

/**
 * A mistake of the person at the keyboard: wrong flag, missing credential, taken port.
 * Printed as message and hint, without a stack, and turned into `exitCode`.
 */
export class UserError extends Error {
  readonly code: string;
  readonly hint: string;
  readonly exitCode: number;

  constructor(code: string, message: string, hint: string, exitCode = 1) {
    super(message);
    this.name = "UserError";
    this.code = code;
    this.hint = hint;
    this.exitCode = exitCode;
  }
}

/** A refusal that a protocol client sees: status, machine-readable code, sentence, details. */
export class HttpError extends Error {
  readonly status: ContentfulStatusCode;
  readonly code: string;
  readonly details: unknown;
  readonly headers: Record<string, string>;

  constructor(
    status: ContentfulStatusCode,
    code: string,
    message: string,
    options: { details?: unknown; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "HttpError";
    this.status = status;
    this.code = code;
    this.details = options.details ?? null;
    this.headers = options.headers ?? {};
  }
}

export const unauthorized = (message: string) =>
  new HttpError(401, "unauthorized", message, { headers: { "www-authenticate": "Bearer" } });
export const forbidden = (message: string) => new HttpError(403, "forbidden", message);
export const notFound = (message: string) => new HttpError(404, "not_found", message);
export const conflict = (message: string) => new HttpError(409, "conflict", message);
export const tooLarge = (limitBytes: number) =>
  new HttpError(413, "payload_too_large", `The request body is larger than ${limitBytes} bytes.`);
export const unavailable = (message: string, retryAfterSeconds = 1) =>
  new HttpError(503, "unavailable", message, {
    headers: { "retry-after": String(retryAfterSeconds) },
  });

/** One entry of a 422 answer, in the shape of pydantic that the LangGraph SDKs know. */
export interface ValidationDetail {
  type: string;
  loc: (string | number)[];
  msg: string;
  input: unknown;
}

/** A 422: the request is understood but a field is missing or has the wrong type. */
export class ValidationError extends HttpError {
  readonly detail: ValidationDetail[];

  constructor(detail: ValidationDetail[], message: string, cause?: unknown) {
    super(422, "unprocessable_entity", message, { details: detail, cause });
    this.name = "ValidationError";
    this.detail = detail;
  }
}

/**
 * Turns zod's issues into a {@link ValidationError} that names the place, e.g. `body.input`. A schema
 * that takes its input apart first needs zod's `reportInput`: what is wrong is not in the input.
 */
export function validationError(
  place: "body" | "query" | "path" | "header",
  error: ZodError,
  input: unknown,
): ValidationError {
  const detail = error.issues.map((issue): ValidationDetail => {
    const path = issue.path.map((part) => (typeof part === "symbol" ? String(part) : part));
    const found = "input" in issue ? issue.input : valueAt(input, path);
    const missing = found === undefined && issue.code.startsWith("invalid_");
    return {
      type: missing ? "missing" : issue.code,
      loc: [place, ...path],
      msg: missing ? "Field required" : issue.message,
      input: missing ? (valueAt(input, path.slice(0, -1)) ?? null) : (found ?? null),
    };
  });
  const sentences = detail.map((d) => {
    const field = d.loc.slice(1).join(".") || place;
    return d.type === "missing" ? `field ${field} is required` : `${field}: ${d.msg}`;
  });
  return new ValidationError(detail, `Invalid ${place}: ${sentences.join("; ")}.`);
}

function valueAt(input: unknown, path: (string | number)[]): unknown {
  let value = input;
  for (const part of path) {
    if (value === null || typeof value !== "object") return undefined;
    value = (value as Record<string | number, unknown>)[part];
  }
  return value;
}

/**
 * The one maker of Agent Protocol error bodies:
 * `{"error": code, "message", "details"}`, and `{"detail": […], "message"}` for a 422.
 */
export function agentProtocolError(c: Context, error: unknown): Response {
  const known = asHttpError(error);
  const body =
    known instanceof ValidationError
      ? { detail: known.detail, message: known.message }
      : { error: known.code, message: known.message, details: known.details };
  return c.json(body, known.status, known.headers);
}

/** The one maker of OpenAI error bodies: `{"error": {"message", "type", "param", "code"}}`. */
export function openaiError(c: Context, error: unknown): Response {
  const known = asHttpError(error);
  return c.json(openaiErrorBody(known), known.status, known.headers);
}

/** The body alone, for an error frame inside a stream. */
export function openaiErrorBody(error: HttpError): object {
  const param = error instanceof ValidationError ? error.detail[0]?.loc.slice(1).join(".") : null;
  const type = error.status < 500 ? "invalid_request_error" : "api_error";
  return { error: { message: error.message, type, param: param || null, code: error.code } };
}

function asHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  return new HttpError(500, "internal_error", "Something broke on our side. The log has details.", {
    cause: error,
  });
}
