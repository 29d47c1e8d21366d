import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { ChatRequest } from "./reply.ts";

/** A tool call in the shape of the OpenAI wire. */
export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

interface Tool {
  name: string;
  description?: string | undefined;
  parameters?: unknown;
}

const tools = z.array(
  z.object({
    type: z.literal("function"),
    function: z.object({
      name: z.string(),
      description: z.string().optional().catch(undefined),
      parameters: z.unknown().optional(),
    }),
  }),
);
const namedChoice = z.object({ function: z.object({ name: z.string() }) });

/** Words that stand in the description of almost any tool and in almost any question. */
const COMMON_WORDS = new Set(
  "about also been call could does from function give gives given have into just know like makes need only please return returns should some tell than that their them then there these they this tool using value want what when where which will with would your".split(
    " ",
  ),
);
const SHORTEST_WORD = 4;

/** The call of the tool that the question mentions, or that the request insists on. */
export function chooseTool(request: ChatRequest, question: string): ToolCall | undefined {
  if (request.tool_choice === "none") return undefined;
  // Entries of other types (a provider's own tools) are not ours to call.
  const offered = (request.tools ?? []).flatMap((entry): Tool[] => {
    const known = tools.safeParse([entry]).data;
    return known?.map((tool) => tool.function) ?? [];
  });
  const insisted = namedChoice.safeParse(request.tool_choice).data?.function.name;
  const tool =
    insisted !== undefined
      ? offered.find(({ name }) => name === insisted)
      : (mentioned(offered, question) ??
        (request.tool_choice === "required" ? offered[0] : undefined));
  if (tool === undefined) return undefined;
  return {
    id: `call_${randomUUID().replaceAll("-", "")}`,
    type: "function",
    function: { name: tool.name, arguments: JSON.stringify(emptyArguments(tool.parameters)) },
  };
}

function mentioned(offered: readonly Tool[], question: string): Tool | undefined {
  const asked = wordsOf(question);
  const scored = offered.map((tool) => {
    const own = wordsOf(`${tool.name} ${tool.description ?? ""}`);
    return { tool, score: [...asked].filter((word) => own.has(word)).length };
  });
  const best = scored.reduce<{ tool?: Tool; score: number }>(
    (most, entry) => (entry.score > most.score ? entry : most),
    { score: 0 },
  );
  return best.tool;
}

function wordsOf(text: string): Set<string> {
  const words = text
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
  return new Set(words.filter((word) => word.length >= SHORTEST_WORD && !COMMON_WORDS.has(word)));
}

function emptyArguments(parameters: unknown): unknown {
  const value = emptyValue(parameters, 0);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

const jsonSchema = z.object({
  type: z.union([z.string(), z.array(z.string())]).optional(),
  default: z.unknown().optional(),
  const: z.unknown().optional(),
  enum: z.array(z.unknown()).optional(),
  anyOf: z.array(z.unknown()).optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
  required: z.array(z.string()).optional(),
  minimum: z.number().optional(),
});
/** Where schemas refer to themselves there is no value to find. */
const MAX_DEPTH = 8;

/** The plainest value that a JSON schema allows: required properties only, empty or zero. */
function emptyValue(input: unknown, depth: number): unknown {
  const schema = jsonSchema.safeParse(input).data;
  if (schema === undefined || depth > MAX_DEPTH) return {};
  for (const given of [schema.default, schema.const, schema.enum?.[0]]) {
    if (given !== undefined) return given;
  }
  if (schema.anyOf?.[0] !== undefined) return emptyValue(schema.anyOf[0], depth + 1);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case "string":
      return "";
    case "number":
    case "integer":
      return schema.minimum ?? 0;
    case "boolean":
      return false;
    case "array":
      return [];
    case "null":
      return null;
    default:
      return Object.fromEntries(
        (schema.required ?? []).map((name) => [
          name,
          emptyValue(schema.properties?.[name], depth + 1),
        ]),
      );
  }
}
