import { cp, mkdir, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { agentDeclaration } from "../common/agent.ts";
import { UserError } from "../common/errors.ts";

/**
 * Lays out what a worker serves for one declared agent: the folder of its graph and a
 * `langgraph.json` that names it. Run while an agent's image is built (agents/Dockerfile).
 *
 * @param declarationFile `agents/<name>.ts`; its graph lies in the folder `agents/<name>`.
 * @param target Is made.
 * @throws UserError that names the file and what is wrong with it.
 */
export async function assembleAgent(declarationFile: string, target: string): Promise<void> {
  const file = resolve(declarationFile);
  const { default: declared } = await import(pathToFileURL(file).href);
  const result = agentDeclaration.safeParse(declared);
  if (!result.success) {
    const problems = result.error.issues.map(
      ({ path, message }) => `${path.join(".")}: ${message}`,
    );
    throw invalid(file, problems.join("; "));
  }
  const { graphId, graph } = result.data;
  const folder = join(dirname(file), basename(file, ".ts"));
  const graphFile = resolve(dirname(file), graph.slice(0, graph.lastIndexOf(":")));
  if (relative(folder, graphFile).startsWith("..")) {
    throw invalid(file, `its graph has to lie in the folder ${basename(folder)} beside it`);
  }
  const found = await stat(graphFile).catch(() => undefined);
  if (!found?.isFile()) throw invalid(file, `its graph ${graphFile} does not exist`);
  await mkdir(target, { recursive: true });
  await cp(folder, join(target, basename(folder)), { recursive: true });
  const config = { graphs: { [graphId]: graph } };
  await writeFile(join(target, "langgraph.json"), `${JSON.stringify(config, null, 2)}\n`);
}

function invalid(file: string, problem: string): UserError {
  return new UserError(
    "agent_declaration",
    `${file} declares no agent: ${problem}.`,
    'It needs: export default defineAgent({ graphId: "my-agent", graph: "./my-agent/graph.ts:graph" });',
  );
}

if (import.meta.main) {
  const { positionals } = parseArgs({ allowPositionals: true });
  const [declarationFile, target] = positionals;
  try {
    if (declarationFile === undefined || target === undefined) {
      throw new UserError(
        "usage",
        "Two paths are needed.",
        "assemble-agent.ts DECLARATION TARGET",
        2,
      );
    }
    await assembleAgent(declarationFile, target);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    process.stderr.write(`${error.message}\n${error.hint}\n`);
    process.exit(error.exitCode);
  }
}
