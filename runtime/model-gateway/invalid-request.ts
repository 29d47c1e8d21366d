import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { ZodError } from "zod";
import { type ValidationDetail, ValidationError, validationError } from "../common/errors.ts";

/**
 * A request that can't be understood, answered as the OpenAI wire does: 400 with the field's name
 * in `param`, where the Agent Protocol would say 422.
 */
export class InvalidRequest extends ValidationError {
  override readonly status: ContentfulStatusCode = 400;
  override readonly code: string;

  /** @param field The place in the body, e.g. `messages.0.role`; empty for the body as a whole. */
  constructor(field: string | ValidationDetail[], message: string, code = "invalid_request") {
    const detail =
      typeof field === "string"
        ? [
            {
              type: code,
              loc: ["body", ...field.split(".").filter(Boolean)],
              msg: message,
              input: null,
            },
          ]
        : field;
    super(detail, message);
    this.code = code;
  }
}

/** Says which fields of the body are wrong, and how. */
export function invalidBody(error: ZodError, body: unknown): InvalidRequest {
  const { detail, message } = validationError("body", error, body);
  return new InvalidRequest(detail, message);
}
