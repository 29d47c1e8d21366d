import type { Handler } from "hono";
import { HttpError } from "../common/errors.ts";

/** Refuses every other method of a path with a 405 that names the right one. */
export function onlyMethod(method: "GET" | "POST"): Handler {
  return (c) => {
    throw new HttpError(405, "method_not_allowed", `${c.req.path} takes ${method} only.`, {
      headers: { allow: method },
    });
  };
}
