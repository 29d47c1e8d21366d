import { z } from "zod";

/** The declaration of one agent, as a file of `agents/` exports it. */
export const agentDeclaration = z.strictObject({
  /**
   * What clients send as `X-Graph-ID`: the key of a graph in `langgraph.json`, as far as it can be the
   * value of a Kubernetes label.
   */
  graphId: z
    .string()
    .regex(
      /^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$/,
      "use 1 to 63 letters, digits, hyphens and underscores, the first and the last a letter or digit",
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
