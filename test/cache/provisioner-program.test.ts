import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { Redis } from "ioredis";
import { AgentDeployments } from "../support/agent-deployment.ts";
import { startCache, type TestCache } from "../support/cache.ts";
import { eventually } from "../support/eventually.ts";
import { KubernetesApi } from "../support/kubernetes-api.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import { createProvisionerRole } from "../support/provisioner.ts";

const MAIN = fileURLToPath(new URL("../../runtime/provisioner/main.ts", import.meta.url));

/** A provisioner as a program of its own. */
interface Program {
  child: ChildProcess;
  url: string;
  output(): string;
}

describe("The provisioner as a program", () => {
  let postgres: TestPostgres;
  let cache: TestCache;
  let api: KubernetesApi;
  let agents: AgentDeployments;
  let environment: NodeJS.ProcessEnv;
  let programs: Program[];

  before(async () => {
    postgres = await startTestPostgres();
    cache = await startCache();
    api = new KubernetesApi();
    await api.start();
    agents = new AgentDeployments(api);
    environment = {
      PATH: process.env.PATH,
      PORT: "0",
      BIND_ADDRESSES: "127.0.0.1",
      KUBERNETES_API_URL: api.url.href,
      AGENT_NAMESPACES: "default",
      DATABASE_ADMIN_URL: await createProvisionerRole(postgres),
      REDIS_ADMIN_URL: cache.adminUrl,
      ASSERTION_PUBLIC_KEY: "pem",
      OPENAI_BASE_URL: "http://model-gateway:8000/v1",
    };
  });
  after(async () => {
    await api.stop();
    await cache.stop();
    await postgres.stop();
  });
  beforeEach(() => {
    programs = [];
  });
  afterEach(() => Promise.all(programs.map(({ child }) => end(child))));

  async function start(): Promise<Program> {
    const child = fork(MAIN, { env: environment, silent: true });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (bytes: Buffer) => {
        output += bytes;
      });
    }
    const [message] = await Promise.race([
      once(child, "message"),
      once(child, "exit").then(() => {
        throw new Error(output);
      }),
    ]);
    const program = { child, url: `http://127.0.0.1:${message.listening}`, output: () => output };
    programs.push(program);
    return program;
  }

  async function end(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill(signal);
    await gone;
  }

  async function standing({ url }: Program): Promise<unknown> {
    const answer = await fetch(`${url}/ready`);
    const body: unknown = await answer.json();
    return answer.ok ? body : undefined;
  }

  async function isReady(program: Program, as: string): Promise<void> {
    await eventually(`ready as ${as}`, async () => {
      return (
        JSON.stringify(await standing(program)) === JSON.stringify({ status: "ok", standing: as })
      );
    });
  }

  async function redisAnswers(name: string): Promise<boolean> {
    const { REDIS_URL = "" } = agents.environment(name) ?? {};
    const redis = new Redis(REDIS_URL, {
      retryStrategy: () => null,
      enableReadyCheck: false,
      lazyConnect: true,
    });
    redis.on("error", () => {});
    try {
      await redis.connect();
      return (await redis.ping()) === "PONG";
    } catch {
      // Not yet: the caller asks again.
      return false;
    } finally {
      redis.disconnect();
    }
  }

  it("provisions agents, and its second replica goes on when the first is killed", async () => {
    const first = await start();
    await isReady(first, "leader");
    const second = await start();
    await isReady(second, "standby");
    agents.apply("one");
    await eventually("the first agent", () => agents.environment("one") !== undefined);
    expect(await redisAnswers("one")).to.equal(true);
    await end(first.child, "SIGKILL");
    agents.apply("two");
    await eventually("the second agent", () => agents.environment("two") !== undefined);
    await isReady(second, "leader");
    expect((await fetch(`${second.url}/live`)).status).to.equal(200);
  });

  it("restores the users of a cache that restarted", async () => {
    const program = await start();
    await isReady(program, "leader");
    agents.apply("restored");
    await eventually("the agent", () => agents.environment("restored") !== undefined);
    const before = agents.environment("restored");
    await cache.kill();
    await cache.start();
    await eventually("the user", () => redisAnswers("restored"));
    expect(agents.environment("restored")).to.deep.equal(before);
  });

  it("says while the cache is away what is wrong, and catches up", async () => {
    const program = await start();
    await isReady(program, "leader");
    await cache.kill();
    agents.apply("waiting");
    const failures = () =>
      agents.events("waiting").filter(({ reason }) => reason === "CredentialsFailed");
    await eventually("an event", () => failures().length > 0);
    expect(failures()[0]?.message).to.equal(
      "The provisioner could not set up the agent's Redis user: the cache does not answer.",
    );
    await cache.start();
    await eventually("the agent", () => agents.environment("waiting") !== undefined);
    for (const secret of [environment.DATABASE_ADMIN_URL, environment.REDIS_ADMIN_URL]) {
      expect(program.output()).not.to.include(new URL(secret ?? "").password);
    }
  });

  it("leaves in order when it is asked to", async () => {
    const program = await start();
    await isReady(program, "leader");
    await end(program.child);
    expect(program.child.exitCode).to.equal(0);
  });
});
