import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readdir, realpath, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { type AgentDeclaration, agentDeclaration } from "../common/agent.ts";
import { UserError } from "../common/errors.ts";
import type { ReadDeclaration } from "./declaration-reader.ts";
import { type OnWaiting, until } from "./wait.ts";
import { confinement } from "./worker-permissions.ts";

const READER = join(import.meta.dirname, "declaration-reader.ts");
/** Declarations take milliseconds; this is for one that never comes to an end. */
const PATIENCE_MS = 30_000;

/** An agent as its file declares it; the graph as an absolute path. */
export interface DeclaredAgent extends AgentDeclaration {
  file: string;
}

/**
 * Reads the declarations of a folder: every `.ts` file that lies directly in it. They are code, so
 * they are read in a process that is confined as the worker is.
 *
 * @param patienceMs How long all of them together may take.
 * @throws UserError that names the file, or says why no file can be read.
 */
export async function readAgents(
  checkout: string,
  directory: string,
  onWaiting: OnWaiting = () => {},
  patienceMs = PATIENCE_MS,
): Promise<DeclaredAgent[]> {
  const folder = await realFolder(directory);
  const files = (await readdir(folder))
    .filter((name) => /^[^.].*\.ts$/.test(name) && !name.endsWith(".d.ts"))
    .sort()
    .map((name) => join(folder, name));
  if (files.length === 0) {
    throw new UserError(
      "no_agents",
      `There is no agent in ${directory}.`,
      "Add a file such as assistant.ts that declares one with defineAgent, or name another folder with --agents DIR.",
    );
  }
  const agents: DeclaredAgent[] = [];
  const declarations = await readDeclarations(checkout, folder, files, onWaiting, patienceMs);
  for (const read of declarations) {
    const agent = await checkDeclaration(read, folder);
    const twin = agents.find(({ graphId }) => graphId === agent.graphId);
    if (twin !== undefined) throw sameGraphId(agent, twin);
    agents.push(agent);
  }
  return agents;
}

/** Writes the `langgraph.json` that the worker serves. */
export async function writeLanggraphConfig(file: string, agents: DeclaredAgent[]): Promise<void> {
  const graphs = Object.fromEntries(agents.map(({ graphId, graph }) => [graphId, graph]));
  await writeFile(file, `${JSON.stringify({ graphs }, null, 2)}\n`, { mode: 0o600 });
}

async function realFolder(directory: string): Promise<string> {
  try {
    return await realpath(directory);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    throw new UserError(
      "no_agents",
      `The folder of agents ${directory} can't be read (${code}).`,
      "Name the right one with --agents DIR.",
    );
  }
}

async function readDeclarations(
  checkout: string,
  folder: string,
  files: string[],
  onWaiting: OnWaiting,
  patienceMs: number,
): Promise<ReadDeclaration[]> {
  const reader = await startReader(checkout, folder, files);
  const read: ReadDeclaration[] = [];
  reader.on("message", (message) => read.push(message as ReadDeclaration));
  let ended = false;
  const closed = once(reader, "close").then(() => {
    ended = true;
  });
  await until(
    () => ended || undefined,
    patienceMs,
    (waitedMs) => onWaiting(`for ${basename(files[read.length] ?? "")}`, waitedMs),
  );
  const isLate = !ended && reader.kill("SIGKILL");
  await closed;
  const missing = files[read.length];
  if (missing !== undefined) {
    const late = `it was not loaded within ${patienceMs / 1_000} s`;
    throw invalid(missing, isLate ? late : "it ended the process that reads it");
  }
  return read;
}

async function startReader(
  checkout: string,
  folder: string,
  files: string[],
): Promise<ChildProcess> {
  try {
    const reader = fork(READER, files, {
      execArgv: confinement(checkout, folder, [READER]),
      env: { PATH: process.env.PATH },
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    await once(reader, "spawn");
    return reader;
  } catch (error) {
    throw new UserError(
      "declaration_reader",
      `The process that reads the agents' declarations can't be started: ${(error as Error).message}.`,
      "See that the machine has memory and processes left, then try again.",
    );
  }
}

async function checkDeclaration(read: ReadDeclaration, folder: string): Promise<DeclaredAgent> {
  const { file } = read;
  if ("error" in read) throw invalid(file, read.error);
  const result = agentDeclaration.safeParse(read.declaration);
  if (!result.success) {
    const problems = result.error.issues.map(({ path, message }) =>
      path.length === 0 ? message : `${path.join(".")}: ${message}`,
    );
    throw invalid(file, problems.join("; "));
  }
  const { graph } = result.data;
  const colon = graph.lastIndexOf(":");
  const graphFile = resolve(dirname(file), graph.slice(0, colon));
  if (relative(folder, graphFile).startsWith("..")) {
    throw invalid(file, `its graph ${graphFile} lies outside of ${folder}`);
  }
  const found = await stat(graphFile).catch(() => undefined);
  if (!found?.isFile()) throw invalid(file, `its graph ${graphFile} does not exist`);
  return { ...result.data, graph: `${graphFile}${graph.slice(colon)}`, file };
}

function invalid(file: string, problem: string): UserError {
  return new UserError(
    "agent_declaration",
    `${file} declares no agent: ${problem}.`,
    'It needs: export default defineAgent({ graphId: "my-agent", graph: "./my-agent/graph.ts:graph" });',
  );
}

function sameGraphId(agent: DeclaredAgent, twin: DeclaredAgent): UserError {
  return new UserError(
    "agent_declaration",
    `${agent.file} and ${twin.file} declare the same graphId ${agent.graphId}.`,
    "Give one of them another graphId.",
  );
}
