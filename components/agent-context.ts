import { cpSync, mkdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";

/**
 * Puts what an agent's image is made of into a folder of its own: with `agents/` as the context of all,
 * each agent that is added or changed would have the images of all others made anew.
 *
 * @param agents The folder of declarations, with the Dockerfile that they share.
 * @param name The declaration's file name without `.ts`.
 * @param folder Where the contexts are kept.
 * @returns The context.
 */
export function agentContext(agents: string, name: string, folder: string): string {
  const context = join(folder, name);
  rmSync(context, { recursive: true, force: true });
  mkdirSync(context, { recursive: true });
  for (const source of ["Dockerfile", ".dockerignore"]) {
    cpSync(join(agents, source), join(context, source));
  }
  for (const source of [`${name}.ts`, name]) {
    cpSync(join(agents, source), join(context, source), { recursive: true, filter: belongs });
  }
  return context;
}

/** As the hash of an image's content has it. */
function belongs(path: string): boolean {
  const name = basename(path);
  return name !== "node_modules" && !name.startsWith(".");
}
