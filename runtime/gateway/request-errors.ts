import type { Context, Hono } from "hono";
import { HttpError, notFound } from "../common/errors.ts";
import type { Logger } from "../common/logging.ts";
import type { GatewayEnv } from "./gateway-env.ts";
import { withAnswerHeaders } from "./request-id.ts";

/**
 * Answers a door's errors in the shape of its protocol, with the request's id. What is not an
 * expected refusal is logged with its stack; the client learns only that something broke.
 */
export function answerErrors(
  app: Hono<GatewayEnv>,
  shape: (c: Context, error: unknown) => Response,
  logger: Logger,
): void {
  app.onError((error, c) => {
    const id = c.get("requestId");
    if (!(error instanceof HttpError)) logger.error({ request_id: id, err: error }, "unexpected");
    else if (error.cause !== undefined) {
      logger.warn({ request_id: id, cause: String(error.cause) }, error.message);
    }
    return withAnswerHeaders(c, shape(c, error));
  });
  app.notFound((c) =>
    withAnswerHeaders(c, shape(c, notFound("There is nothing at this address."))),
  );
}
