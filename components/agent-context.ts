import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { contentHash } from "./image.ts";

/**
 * Puts what an agent's image is made of into a folder of its own: with `agents/` as the context of all,
 * each agent that is added or changed would have the images of all others made anew.
 *
 * @param agents The folder of declarations, with the Dockerfile that they share.
 * @param name The declaration's file name without `.ts`.
 * @param folder Where the contexts are kept, by their content: another run may be building from one.
 * @returns The context.
 */
export function agentContext(agents: string, name: string, folder: string): string {
  mkdirSync(folder, { recursive: true });
  const copy = mkdtempSync(join(folder, ".new-"));
  const sources = ["Dockerfile", ".dockerignore", `${name}.ts`, name];
  for (const source of sources) {
    cpSync(join(agents, source), join(copy, source), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => path === join(agents, source) || !basename(path).startsWith("."),
    });
  }
  const context = join(folder, `${name}-${contentHash(copy, sources, {})}`);
  if (existsSync(context)) rmSync(copy, { recursive: true });
  else renameSync(copy, context);
  return context;
}
