import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { constants, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { MOST_DEATHS } from "../../runtime/embedded/restart-policy.ts";
import { until } from "../../runtime/embedded/wait.ts";
import { PlatformProcess, paste } from "../support/platform-process.ts";

const run = promisify(execFile);
const INSTALL = resolve(import.meta.dirname, "../../install.sh");
const NODE_MODULES = resolve(import.meta.dirname, "../../node_modules");
const COMMON = resolve(import.meta.dirname, "../../runtime/common/agent.ts");
const STOP_MS = 5_000;

/** The last thing said on a thread or in a run's answer. */
interface Conversation {
  messages: { content: string }[];
}

describe("./install.sh --embedded", () => {
  let directory: string;
  let data: string;
  let port: number;
  const running: PlatformProcess[] = [];

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "platform-install-"));
    data = join(directory, "data");
    port = await freePort();
  });

  afterEach(async () => {
    for (const platform of running.splice(0)) {
      const family = await platform.family();
      platform.ctrlCIfRunning();
      await platform.exited;
      await family.leftAfter(STOP_MS);
    }
    await rm(directory, { recursive: true, force: true });
  });

  const start = (...more: string[]) => {
    const args = ["--embedded", "--demo", "--port", String(port), "--data", data, ...more];
    const platform = new PlatformProcess(args);
    running.push(platform);
    return platform;
  };
  const client = (graphId = "assistant") =>
    new Client({
      apiUrl: `http://localhost:${port}`,
      apiKey: null,
      defaultHeaders: { authorization: "Bearer local-dev-token", "x-graph-id": graphId },
    });

  it("answers the printed curl lines exactly as they stand", async () => {
    const platform = await start().ready();

    const agent = JSON.parse(await paste(platform.printedCommand("curl -sS http://localhost:")));
    const completion = JSON.parse(
      await paste(platform.printedCommand(`curl -sS http://localhost:${port}/v1/chat`)),
    );

    expect((agent as Conversation).messages.at(-1)?.content).to.include("demo");
    expect(completion.choices[0].message.content).to.be.a("string").and.not.equal("");
    expect(platform.output).to.include("Platform is deployed (embedded, data in ");
  });

  it("leaves no process behind when Ctrl-C is pressed, and exits with 0", async () => {
    const platform = await start().ready();
    const family = await platform.family();

    platform.ctrlC();

    expect(await family.leftAfter(STOP_MS)).to.deep.equal([]);
    expect((await platform.finished()).code).to.equal(0);
  });

  it("stops in time in the middle of a run that never ends", async () => {
    const agents = await agentsFolder(directory);
    await addAgent(agents, "slow", "await new Promise((done) => setTimeout(done, 600_000));");
    const platform = await start("--agents", agents).ready();
    const slow = client("slow");
    const thread = await slow.threads.create();
    const run = await slow.runs.create(thread.thread_id, "slow", { input: { messages: [] } });
    await until(
      async () =>
        (await slow.runs.get(thread.thread_id, run.run_id)).status === "running" || undefined,
      10_000,
    );
    const family = await platform.family();

    platform.ctrlC();

    expect(await family.leftAfter(STOP_MS)).to.deep.equal([]);
  });

  it("remembers a thread over a restart", async () => {
    const first = await start().ready();
    const thread = await client().threads.create();
    const say = async (content: string): Promise<Conversation> => {
      const input = { messages: [{ role: "human", content }] };
      const values = await client().runs.wait(thread.thread_id, "assistant", { input });
      return {
        messages: "messages" in values ? (values.messages as Conversation["messages"]) : [],
      };
    };
    await say("My name is Ada.");
    first.ctrlC();
    await first.exited;

    await start().ready();
    const answer = await say("Who am I?");

    expect(answer.messages.map(({ content }) => content)).to.include.members([
      "My name is Ada.",
      "Who am I?",
    ]);
  });

  it("starts again after kill -9, and nothing of the dead one is left", async () => {
    const dead = await start().ready();
    const family = await dead.family();

    dead.killHard();

    expect(await family.leftAfter(10_000)).to.deep.equal([]);
    const again = await start().ready();
    await paste(again.printedCommand("curl -sS http://localhost:"));
  });

  it("starts again even where kill -9 took PostgreSQL's guard along", async () => {
    const dead = await start().ready();
    const family = await dead.family();
    const guard = family.pidOf("postgres-watchdog");

    process.kill(guard, "SIGSTOP");
    dead.killHard();
    process.kill(guard, "SIGKILL");

    await start().ready();
    expect(await family.leftAfter(10_000)).to.deep.equal([]);
  });

  for (const program of ["worker/main.ts", "gateway/main.ts", "postgres-watchdog"]) {
    it(`starts ${program} again when it dies, and goes on answering`, async () => {
      const platform = await start().ready();
      const family = await platform.family();

      process.kill(family.pidOf(program), "SIGKILL");

      const back = await until(() => platform.output.includes("is back") || undefined, 30_000);
      expect(back, platform.output).to.equal(true);
      const curl = platform.printedCommand("curl -sS http://localhost:");
      const answer = JSON.parse(await paste(curl)) as Conversation;
      expect(answer.messages.at(-1)?.content).to.include("demo");
    });
  }

  it("outlives a worker that keeps dying, and says 502 and when to try again meanwhile", async () => {
    const platform = await start().ready();
    const call = () =>
      fetch(`http://localhost:${port}/assistants/assistant`, {
        headers: { authorization: "Bearer local-dev-token", "x-graph-id": "assistant" },
      });

    for (let death = 1; death <= MOST_DEATHS; death++) {
      process.kill((await platform.family()).pidOf("worker/main.ts"), "SIGKILL");
      const away = await until(async () => {
        const answer = await call();
        return answer.ok ? undefined : answer;
      }, 10_000);
      expect(away?.status).to.equal(502);
      expect(away?.headers.get("retry-after")).to.match(/^\d+$/);
      const returns = () => platform.output.match(/Worker is back/g)?.length ?? 0;
      await until(() => returns() === death || undefined, 20_000);
    }

    expect((await call()).status).to.equal(200);
    expect(platform.output).to.include(
      "Worker: it was ended by SIGKILL; starting it again in 3.2 s",
    );
    expect(platform.output).to.include("until then calls of agents get 502");
  });

  it("tells a second start that the first one is running, where, and how to stop it", async () => {
    await start().ready();

    const { code, output } = await start().finished();

    expect(code).to.equal(3);
    expect(output).to.include("already running");
    expect(output).to.include(`http://localhost:${port}`);
    expect(output).to.match(/kill \d+/);
  });

  it("names the platform that holds the port, by the process to stop and its data", async () => {
    const first = await start().ready();
    const parent = (await first.family()).pidOf("embedded/main.ts");
    const taken = data;
    data = join(directory, "other");

    const { code, output } = await start().finished();

    expect(code).to.equal(1);
    expect(output).to.include(`Port ${port} is taken by another platform that runs here`);
    expect(output).to.include(`(process ${parent}, data in ${taken})`);
    expect(output).to.include(`kill ${parent}`).and.include("--port");
  });

  it("serves a second agent for the price of a file, by an id as LangGraph has them", async () => {
    const agents = await agentsFolder(directory);
    await addAgent(agents, "My_Parrot_2", "");
    await addAgent(agents, "owl", "");
    const platform = await start("--agents", agents).ready();
    expect(platform.output).to.match(/Graph ids +My_Parrot_2\n +owl\n/);

    const curl = platform.printedCommand("curl -sS http://localhost:");
    for (const graphId of ["My_Parrot_2", "owl"]) {
      const answer = await paste(curl.replaceAll("My_Parrot_2", graphId));
      const { messages } = JSON.parse(answer) as Conversation;
      expect(messages.at(-1)?.content).to.equal(`${graphId} was here`);
    }
    const parrot = client("My_Parrot_2");
    const { thread_id } = await parrot.threads.create();
    await parrot.runs.wait(thread_id, "My_Parrot_2", { input: { messages: [] } });
    const state = await parrot.threads.getState<Conversation>(thread_id);
    expect(state.values.messages.at(-1)?.content).to.equal("My_Parrot_2 was here");
  });

  it("starts after a first start that was killed while it made the database", async () => {
    const first = start();
    const isMaking = async () =>
      (await readdir(data).catch(() => [])).some((name) => name.startsWith("postgres.new-"));
    await until(async () => (await isMaking()) || undefined, 20_000);
    first.killHard();
    await first.exited;

    const platform = await start().ready();

    await paste(platform.printedCommand("curl -sS http://localhost:"));
    expect((await readdir(data)).filter((name) => name.startsWith("postgres."))).to.deep.equal([]);
  });

  it("says which program failed, why, and where its log is", async () => {
    const agents = await agentsFolder(directory);
    await addAgent(agents, "broken", "", "throw new Error('no such weather');");

    const { code, output } = await start("--agents", agents).finished();

    expect(code).to.equal(1);
    expect(output).to.include("Worker did not start");
    expect(output).to.include("no such weather");
    expect(output).to.include(join("logs", "worker.log"));

    await rm(join(agents, "broken.ts"));
    await addAgent(agents, "mended", "");
    await start("--agents", agents).ready();
  });

  it("keeps its directory closed and its secrets to itself", async () => {
    const platform = await start().ready();

    expect((await stat(data)).mode & 0o707).to.equal(0o700);
    expect((await stat(join(data, "secrets.json"))).mode & 0o777).to.equal(0o600);
    const { workerToken, consolePassword } = JSON.parse(
      await readFile(join(data, "secrets.json"), "utf8"),
    );
    expect(platform.output).to.include(consolePassword).and.not.include(workerToken);
    const { stdout } = await platform.commandLines();
    expect(stdout).to.not.include(workerToken).and.not.include(consolePassword);
  });

  it("opens no debugger in any of its processes when they get SIGUSR1", async () => {
    const platform = await start().ready();
    const family = await platform.family();
    const parts = ["embedded", "model-gateway", "worker", "gateway"];
    const pids = parts.map((part) => family.pidOf(`runtime/${part}/main.ts`));
    // Node would take the signal, by a thread that opens the debugger.
    for (const pid of pids)
      expect(await takesSignal(pid, constants.signals.SIGUSR1)).to.equal(false);

    for (const pid of pids) process.kill(pid, "SIGUSR1");

    await paste(platform.printedCommand("curl -sS http://localhost:"));
    const logs = await Promise.all(
      parts.slice(1).map((part) => readFile(join(data, "logs", `${part}.log`), "utf8")),
    );
    for (const text of [platform.output, ...logs]) expect(text).to.not.include("Debugger");
  });

  it("refuses without a provider and without --demo, and lists the six variables", async () => {
    const platform = new PlatformProcess(["--embedded", "--port", String(port), "--data", data]);

    const { code, output } = await platform.finished();

    expect(code).to.not.equal(0);
    for (const name of [
      "OPENAI_API_KEY",
      "OLLAMA_API_KEY",
      "OLLAMA_LOCAL_HOST",
      "ANTHROPIC_API_KEY",
      "GEMINI_API_KEY",
      "VLLM_BACKEND_URL",
    ]) {
      expect(output).to.include(name);
    }
    expect(output).to.include("--demo");
  });

  it("names an unknown argument and shows the usage", async () => {
    const { code, output } = await new PlatformProcess(["--embedded", "--bogus"]).finished();

    expect(code).to.equal(2);
    expect(output).to.include("--bogus").and.include("Usage:");
  });

  it("offers --embedded where the tools of a cluster are missing", async () => {
    const tools = join(directory, "tools");
    await mkdir(tools);
    for (const command of ["bash", "dirname", "cat", "npm", "node"]) {
      const { stdout } = await run("which", [command]);
      await symlink(stdout.trim(), join(tools, command));
    }

    const { code, output } = await new PlatformProcess({
      shell: `PATH="${tools}" "${INSTALL}" --demo`,
      cwd: directory,
    }).finished();

    expect(code).to.equal(1);
    expect(output).to.include("Not installed: docker, kind, helm, kubectl");
    expect(output).to.include("https://docs.docker.com/get-docker/");
    expect(output).to.include("./install.sh --embedded");
  });

  it("refuses secrets that are damaged instead of making new ones", async () => {
    await mkdir(data, { mode: 0o700 });
    await writeFile(join(data, "secrets.json"), '{"version": 1');

    const { code, output } = await start().finished();

    expect(code).to.equal(1);
    expect(output).to.include("secrets.json is damaged");
    expect(await readFile(join(data, "secrets.json"), "utf8")).to.equal('{"version": 1');
  });
});

/** By what the system says of a process: has it a handler for this signal? */
async function takesSignal(pid: number, signal: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const caught = BigInt(`0x${status.match(/^SigCgt:\s*(\w+)$/m)?.[1]}`);
  return (caught & (1n << BigInt(signal - 1))) !== 0n;
}

/** A user's folder of agents, outside of the checkout, with packages of its own. */
async function agentsFolder(directory: string): Promise<string> {
  const agents = join(directory, "agents");
  await mkdir(agents);
  await writeFile(join(directory, "package.json"), '{"type": "module"}');
  await symlink(NODE_MODULES, join(directory, "node_modules"));
  return agents;
}

async function addAgent(agents: string, graphId: string, work: string, first = "") {
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
