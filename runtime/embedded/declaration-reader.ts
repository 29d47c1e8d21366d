import { pathToFileURL } from "node:url";

/** What the reader sends for each file: what it exports, or why it can't be loaded. */
export type ReadDeclaration = { file: string } & ({ declaration: unknown } | { error: string });

for (const file of process.argv.slice(2)) {
  const read = await readDeclaration(file);
  await new Promise((sent) => process.send?.(read, undefined, {}, sent));
}
// What a declaration left running, a timer for instance, must not keep the start waiting.
process.exit();

async function readDeclaration(file: string): Promise<ReadDeclaration> {
  try {
    const module: { default?: unknown } = await import(pathToFileURL(file).href);
    return { file, declaration: module.default ?? null };
  } catch (error) {
    return { file, error: error instanceof Error ? error.message : String(error) };
  }
}
