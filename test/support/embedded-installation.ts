import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Client } from "@langchain/langgraph-sdk";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { PlatformProcess } from "./platform-process.ts";

const NODE_MODULES = resolve(import.meta.dirname, "../../node_modules");
const COMMON = resolve(import.meta.dirname, "../../runtime/common/agent.ts");
/** How long all of a platform's processes may take to leave, in ms. */
export const STOP_MS = 5_000;

/** What is said on a thread, in its state or in a run's answer. */
export interface Conversation {
  messages: { content: string }[];
}

/** `./install.sh --embedded --demo` on a port and a data directory of one test's own. */
export class EmbeddedInstallation {
  readonly directory: string;
  readonly port: number;
  data: string;
  /** What the terminal has set besides. */
  environment: Record<string, string> = {};
  readonly #running: PlatformProcess[] = [];

  private constructor(directory: string, port: number) {
    this.directory = directory;
    this.port = port;
    this.data = join(directory, "data");
  }

  static async prepare(): Promise<EmbeddedInstallation> {
    const directory = await mkdtemp(join(tmpdir(), "platform-install-"));
    return new EmbeddedInstallation(directory, await freePort());
  }

  start(...more: string[]): PlatformProcess {
    const place = ["--port", String(this.port), "--data", this.data];
    const command = ["--embedded", "--demo", ...place, ...more];
    const platform = new PlatformProcess(command, this.environment);
    this.#running.push(platform);
    return platform;
  }

  client(graphId = "assistant"): Client {
    return new Client({
      apiUrl: `http://localhost:${this.port}`,
      apiKey: null,
      defaultHeaders: { authorization: "Bearer local-dev-token", "x-graph-id": graphId },
    });
  }

  /** Stops what still runs and removes everything. */
  async dispose(): Promise<void> {
    for (const platform of this.#running.splice(0)) {
      const family = await platform.family();
      platform.ctrlCIfRunning();
      await platform.exited;
      await family.leftAfter(STOP_MS);
    }
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** A user's folder of agents, outside of the checkout, with packages of its own. */
export async function agentsFolder(directory: string): Promise<string> {
  const agents = join(directory, "agents");
  await mkdir(agents);
  await writeFile(join(directory, "package.json"), '{"type": "module"}');
  await symlink(NODE_MODULES, join(directory, "node_modules"));
  return agents;
}

/**
 * Adds an agent that says that it was here.
 *
 * @param work What its node does before, as code.
 * @param first What its module does when it is loaded.
 */
export async function addAgent(agents: string, graphId: string, work: string, first = "") {
  await writeFile(
    join(agents, `${graphId}.ts`),
    `import { defineAgent } from ${JSON.stringify(COMMON)};
     export default defineAgent({ graphId: "${graphId}", graph: "./${graphId}/graph.ts:graph" });`,
  );
  await mkdir(join(agents, graphId));
  await writeFile(
    join(agents, graphId, "graph.ts"),
    `import { AIMessage } from "@langchain/core/messages";
     import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
     ${first}
     export const graph = new StateGraph(MessagesAnnotation)
       .addNode("say", async () => {
         ${work}
         return { messages: [new AIMessage("${graphId} was here")] };
       })
       .addEdge(START, "say")
       .compile();`,
  );
}
