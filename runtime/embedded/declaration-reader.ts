import { pathToFileURL } from "node:url";

/** What the reader sends for each file: what it exports, or why it can't be loaded. */
export type ReadDeclaration = { file: string } & ({ declaration: unknown } | { error: string });

for (const file of process.argv.slice(2)) {
  process.send?.(await readDeclaration(file));
}

async function readDeclaration(file: string): Promise<ReadDeclaration> {
  try {
    const module: { default?: unknown } = await import(pathToFileURL(file).href);
    return { file, declaration: module.default ?? null };
  } catch (error) {
    return { file, error: error instanceof Error ? error.message : String(error) };
  }
}
