import type { z } from "zod";
import { UserError } from "./errors.ts";

/**
 * Validates a program's environment once, at its start.
 *
 * Empty variables count as absent, as in `FOO= node main.ts`.
 * @throws UserError that names every wrong variable, never its value (it may be a secret).
 */
export function readEnvironment<Schema extends z.ZodType>(
  schema: Schema,
  environment: NodeJS.ProcessEnv,
): z.output<Schema> {
  const present = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ""),
  );
  const result = schema.safeParse(present);
  if (result.success) return result.data;
  const problems = result.error.issues.map((issue) => {
    const name = issue.path.join(".");
    return present[String(issue.path[0])] === undefined
      ? `${name} is not set`
      : `${name}: ${issue.message}`;
  });
  throw new UserError(
    "configuration",
    `The configuration is not valid: ${problems.join("; ")}.`,
    "Set the environment variables named above and start again.",
    2,
  );
}
