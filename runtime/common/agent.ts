import { z } from "zod";

/** The declaration of one agent, as a file of `agents/` exports it. */
export const agentDeclaration = z.strictObject({
  /** What clients send as `X-Graph-ID`; also the name of the release. */
  graphId: z
    .string()
    .regex(
      /^[a-z0-9]([a-z0-9-]{0,51}[a-z0-9])?$/,
      "use 1 to 53 lower-case letters, digits and hyphens, as in a Kubernetes name",
    ),
  /** One sentence for people. */
  description: z.string().optional(),
  /** Where the compiled graph is: `./file.ts:export`, relative to the declaration. */
  graph: z.string().regex(/^\.\.?\/.+:[\w$]+$/, "use ./file.ts:export"),
});

export type AgentDeclaration = z.infer<typeof agentDeclaration>;

/**
 * Declares an agent. The graph is named, not imported, so that reading all declarations is cheap
 * and runs none of an agent's code.
 *
 * @example
 * ```ts
 * export default defineAgent({ graphId: "assistant", graph: "./assistant/graph.ts:graph" });
 * ```
 */
export function defineAgent(declaration: AgentDeclaration): AgentDeclaration {
  return declaration;
}
