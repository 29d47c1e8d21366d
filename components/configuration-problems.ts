import { z } from "zod";

/**
 * What is wrong with a configuration, a line a key: `  platform:images.nginx: there is no such
 * setting…`. Values are never shown, they may be secrets.
 */
export function configurationProblems(
  schema: z.ZodType,
  issues: z.core.$ZodIssue[],
  prefix: string,
): string[] {
  return issues.flatMap((issue) => {
    const line = (path: PropertyKey[], text: string) => `  ${prefix}${path.join(".")}: ${text}`;
    switch (issue.code) {
      case "unrecognized_keys": {
        const known = keysAt(schema, issue.path).join(", ");
        return issue.keys.map((key) =>
          line([...issue.path, key], `there is no such setting; there are ${known}`),
        );
      }
      case "invalid_key":
        return issue.issues.map(({ message }) => line(issue.path, message));
      default:
        return [line(issue.path, issue.message)];
    }
  });
}

/** The keys that an object within the schema knows. */
function keysAt(schema: z.ZodType, path: PropertyKey[]): string[] {
  let at = unwrapped(schema);
  for (const key of path) {
    const inner = innerOf(at, String(key));
    if (inner === undefined) return [];
    at = unwrapped(inner);
  }
  return at instanceof z.ZodObject ? Object.keys(at.shape) : [];
}

function innerOf(schema: z.ZodType, key: string): z.ZodType | undefined {
  if (schema instanceof z.ZodObject) return schema.shape[key];
  return schema instanceof z.ZodArray ? (schema.element as z.ZodType) : undefined;
}

function unwrapped(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodDefault || schema instanceof z.ZodOptional
    ? unwrapped(schema.unwrap() as z.ZodType)
    : schema;
}
