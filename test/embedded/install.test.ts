import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { constants } from "node:os";
import { join, resolve } from "node:path";
import { buffer } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect } from "chai";
import {
  addAgent,
  agentsFolder,
  type Conversation,
  EmbeddedInstallation,
} from "../support/embedded-installation.ts";
import { eventually } from "../support/eventually.ts";
import { readSpans } from "../support/otlp.ts";
import { PlatformProcess, paste } from "../support/platform-process.ts";

const run = promisify(execFile);
const INSTALL = resolve(import.meta.dirname, "../../install.sh");

describe("./install.sh --embedded", () => {
  let installation: EmbeddedInstallation;
  let collector: Server | undefined;

  beforeEach(async () => {
    installation = await EmbeddedInstallation.prepare();
  });
  afterEach(async () => {
    await installation.dispose();
    collector?.closeAllConnections();
    collector?.close();
  });

  it("answers the printed curl lines exactly as they stand", async () => {
    const platform = await installation.start().ready();

    const agent = JSON.parse(await paste(platform.printedCommand("curl -sS http://localhost:")));
    const completion = JSON.parse(
      await paste(
        platform.printedCommand(`curl -sS http://localhost:${installation.port}/v1/chat`),
      ),
    );

    expect((agent as Conversation).messages.at(-1)?.content).to.include("demo");
    expect(completion.choices[0].message.content).to.be.a("string").and.not.equal("");
    expect(platform.output).to.match(/✓ Agents ready \(/);
    expect(platform.output).to.include("Platform is deployed (embedded, data in ");
  });

  it("tells a second start that the first one is running, where, and how to stop it", async () => {
    await installation.start().ready();

    const { code, output } = await installation.start().finished();

    expect(code).to.equal(3);
    expect(output).to.include("already running");
    expect(output).to.include(`http://localhost:${installation.port}`);
    expect(output).to.match(/kill \d+/);
  });

  it("names the platform that holds the port, by the process to stop and its data", async () => {
    const first = await installation.start().ready();
    const parent = (await first.family()).pidOf("embedded/main.ts");
    const taken = installation.data;
    installation.data = join(installation.directory, "other");

    const { code, output } = await installation.start().finished();

    expect(code).to.equal(1);
    expect(output).to.include(
      `Port ${installation.port} is taken by another platform that runs here`,
    );
    expect(output).to.include(`(process ${parent}, data in ${taken})`);
    expect(output).to.include(`kill ${parent}`).and.include("--port");
  });

  it("serves a second agent for the price of a file, by an id as LangGraph has them", async () => {
    const agents = await agentsFolder(installation.directory);
    await addAgent(agents, "My_Parrot_2", "");
    await addAgent(agents, "owl", "");
    const platform = await installation.start("--agents", agents).ready();
    expect(platform.output).to.match(/Graph ids +My_Parrot_2\n +owl\n/);

    const curl = platform.printedCommand("curl -sS http://localhost:");
    for (const graphId of ["My_Parrot_2", "owl"]) {
      const answer = await paste(curl.replaceAll("My_Parrot_2", graphId));
      const { messages } = JSON.parse(answer) as Conversation;
      expect(messages.at(-1)?.content).to.equal(`${graphId} was here`);
    }
    const parrot = installation.client("My_Parrot_2");
    const { thread_id } = await parrot.threads.create();
    await parrot.runs.wait(thread_id, "My_Parrot_2", { input: { messages: [] } });
    const state = await parrot.threads.getState<Conversation>(thread_id);
    expect(state.values.messages.at(-1)?.content).to.equal("My_Parrot_2 was here");
  });

  it("says which program failed, why, and where its log is", async () => {
    const agents = await agentsFolder(installation.directory);
    await addAgent(agents, "broken", "", "throw new Error('no such weather');");

    const { code, output } = await installation.start("--agents", agents).finished();

    expect(code).to.equal(1);
    expect(output).to.include("Worker did not start");
    expect(output).to.include("no such weather");
    expect(output).to.include(join("logs", "worker.log"));

    await rm(join(agents, "broken.ts"));
    await addAgent(agents, "mended", "");
    await installation.start("--agents", agents).ready();
  });

  it("keeps its directory closed and its secrets to itself", async () => {
    const platform = await installation.start().ready();

    expect((await stat(installation.data)).mode & 0o707).to.equal(0o700);
    expect((await stat(join(installation.data, "secrets.json"))).mode & 0o777).to.equal(0o600);
    const { workerToken, consolePassword } = JSON.parse(
      await readFile(join(installation.data, "secrets.json"), "utf8"),
    );
    expect(platform.output).to.include(consolePassword).and.not.include(workerToken);
    const { stdout } = await platform.commandLines();
    expect(stdout).to.not.include(workerToken).and.not.include(consolePassword);
  });

  it("sends agents' spans to a collector whose key no agent has", async () => {
    const keys = new Map<string, unknown>();
    collector = createServer(async (request, response) => {
      for (const { spans } of readSpans(await buffer(request))) {
        for (const { name } of spans) keys.set(name, request.headers.authorization);
      }
      response.end();
    });
    await once(collector.listen(0, "127.0.0.1"), "listening");
    const { port } = collector.address() as AddressInfo;
    installation.environment = {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=collector-key",
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: "authorization=collector-key",
    };
    const agents = await agentsFolder(installation.directory);
    await addAgent(
      agents,
      "spy",
      "return { messages: [new AIMessage(JSON.stringify(process.env))] };",
    );
    await installation.start("--agents", agents).ready();

    const { messages } = (await installation
      .client("spy")
      .runs.wait(null, "spy", { input: { messages: [] } })) as unknown as Conversation;

    const theirs = JSON.parse(messages.at(-1)?.content ?? "");
    expect(Object.keys(theirs)).to.include("OPENAI_API_KEY");
    expect(JSON.stringify(theirs)).not.to.include("collector-key");
    await eventually("the span of the agent's node arrives", () => keys.has("say"));
    expect(new Set(keys.values())).to.deep.equal(new Set(["collector-key"]));
  });

  it("opens no debugger in any of its processes when they get SIGUSR1", async () => {
    const platform = await installation.start().ready();
    const family = await platform.family();
    const parts = ["embedded", "model-gateway", "worker", "gateway"];
    const pids = parts.map((part) => family.pidOf(`runtime/${part}/main.ts`));
    // Node would take the signal, by a thread that opens the debugger.
    for (const pid of pids)
      expect(await takesSignal(pid, constants.signals.SIGUSR1)).to.equal(false);

    for (const pid of pids) process.kill(pid, "SIGUSR1");

    await paste(platform.printedCommand("curl -sS http://localhost:"));
    const logs = await Promise.all(
      parts
        .slice(1)
        .map((part) => readFile(join(installation.data, "logs", `${part}.log`), "utf8")),
    );
    for (const text of [platform.output, ...logs]) expect(text).to.not.include("Debugger");
  });

  it("refuses without a provider and without --demo, and lists the six variables", async () => {
    const platform = new PlatformProcess([
      "--embedded",
      "--port",
      String(installation.port),
      "--data",
      installation.data,
    ]);

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
    const tools = join(installation.directory, "tools");
    await mkdir(tools);
    for (const command of ["bash", "dirname", "cat", "npm", "node"]) {
      const { stdout } = await run("which", [command]);
      await symlink(stdout.trim(), join(tools, command));
    }

    const { code, output } = await new PlatformProcess({
      shell: `PATH="${tools}" "${INSTALL}" --demo`,
      cwd: installation.directory,
    }).finished();

    expect(code).to.equal(1);
    expect(output).to.include("Not installed: docker, kind, helm, kubectl");
    expect(output).to.include("https://docs.docker.com/get-docker/");
    expect(output).to.include("./install.sh --embedded");
    // Before packages are installed, which takes a while.
    expect(output).not.to.include("npm");
  });

  it("refuses secrets that are damaged instead of making new ones", async () => {
    await mkdir(installation.data, { mode: 0o700 });
    await writeFile(join(installation.data, "secrets.json"), '{"version": 1');

    const { code, output } = await installation.start().finished();

    expect(code).to.equal(1);
    expect(output).to.include("secrets.json is damaged");
    expect(await readFile(join(installation.data, "secrets.json"), "utf8")).to.equal(
      '{"version": 1',
    );
  });
});

/** By what the system says of a process: has it a handler for this signal? */
async function takesSignal(pid: number, signal: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const caught = BigInt(`0x${status.match(/^SigCgt:\s*(\w+)$/m)?.[1]}`);
  return (caught & (1n << BigInt(signal - 1))) !== 0n;
}
