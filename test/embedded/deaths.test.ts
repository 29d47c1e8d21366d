import { readdir } from "node:fs/promises";
import { expect } from "chai";
import { MOST_DEATHS } from "../../runtime/embedded/restart-policy.ts";
import { until } from "../../runtime/embedded/wait.ts";
import {
  addAgent,
  agentsFolder,
  type Conversation,
  EmbeddedInstallation,
  STOP_MS,
} from "../support/embedded-installation.ts";
import { paste } from "../support/platform-process.ts";

describe("the embedded platform, when it stops or something of it dies", () => {
  let installation: EmbeddedInstallation;

  beforeEach(async () => {
    installation = await EmbeddedInstallation.prepare();
  });
  afterEach(() => installation.dispose());

  it("leaves no process behind when Ctrl-C is pressed, and exits with 0", async () => {
    const platform = await installation.start().ready();
    const family = await platform.family();

    platform.ctrlC();

    expect(await family.leftAfter(STOP_MS)).to.deep.equal([]);
    expect((await platform.finished()).code).to.equal(0);
  });

  it("stops in time in the middle of a run that never ends", async () => {
    const agents = await agentsFolder(installation.directory);
    await addAgent(agents, "slow", "await new Promise((done) => setTimeout(done, 600_000));");
    const platform = await installation.start("--agents", agents).ready();
    const slow = installation.client("slow");
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
    const first = await installation.start().ready();
    const thread = await installation.client().threads.create();
    const say = async (content: string): Promise<Conversation> => {
      const input = { messages: [{ role: "human", content }] };
      const values = await installation
        .client()
        .runs.wait(thread.thread_id, "assistant", { input });
      return {
        messages: "messages" in values ? (values.messages as Conversation["messages"]) : [],
      };
    };
    await say("My name is Ada.");
    first.ctrlC();
    await first.exited;

    await installation.start().ready();
    const answer = await say("Who am I?");

    expect(answer.messages.map(({ content }) => content)).to.include.members([
      "My name is Ada.",
      "Who am I?",
    ]);
  });

  it("starts again after kill -9, and nothing of the dead one is left", async () => {
    const dead = await installation.start().ready();
    const family = await dead.family();

    dead.killHard();

    expect(await family.leftAfter(10_000)).to.deep.equal([]);
    const again = await installation.start().ready();
    await paste(again.printedCommand("curl -sS http://localhost:"));
  });

  it("starts again even where kill -9 took PostgreSQL's guard along", async () => {
    const dead = await installation.start().ready();
    const family = await dead.family();
    const guard = family.pidOf("postgres-watchdog");

    process.kill(guard, "SIGSTOP");
    dead.killHard();
    process.kill(guard, "SIGKILL");

    await installation.start().ready();
    expect(await family.leftAfter(10_000)).to.deep.equal([]);
  });

  for (const program of ["worker/main.ts", "gateway/main.ts", "postgres-watchdog"]) {
    it(`starts ${program} again when it dies, and goes on answering`, async () => {
      const platform = await installation.start().ready();
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
    const platform = await installation.start().ready();
    const call = () =>
      fetch(`http://localhost:${installation.port}/assistants/assistant`, {
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

  it("starts after a first start that was killed while it made the database", async () => {
    const first = installation.start();
    const isMaking = async () =>
      (await readdir(installation.data).catch(() => [])).some((name) =>
        name.startsWith("postgres.new-"),
      );
    await until(async () => (await isMaking()) || undefined, 20_000);
    first.killHard();
    await first.exited;

    const platform = await installation.start().ready();

    await paste(platform.printedCommand("curl -sS http://localhost:"));
    expect(
      (await readdir(installation.data)).filter((name) => name.startsWith("postgres.")),
    ).to.deep.equal([]);
  });
});
