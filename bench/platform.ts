import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DEV_TOKEN } from "../runtime/common/dev-token.ts";
import { readAgents, writeLanggraphConfig } from "../runtime/embedded/agents.ts";
import { ConsoleOutput } from "../runtime/embedded/console-output.ts";
import { makeDataDirectory } from "../runtime/embedded/data-directory.ts";
import { DATABASE } from "../runtime/embedded/database.ts";
import { freePort } from "../runtime/embedded/free-port.ts";
import { Platform } from "../runtime/embedded/platform.ts";
import { describePrograms, type Programs } from "../runtime/embedded/programs.ts";
import { loadSecrets, type Secrets } from "../runtime/embedded/secrets.ts";

const CHECKOUT = resolve(import.meta.dirname, "..");
const SILENT = new ConsoleOutput({ write: () => true }, {});

/** The embedded platform with the agents of `bench/agents`, on data of its own. */
export interface BenchPlatform {
  programs: Programs;
  secrets: Secrets;
  token: string;
  stop(): Promise<void>;
}

export async function startPlatform(): Promise<BenchPlatform> {
  const directory = await mkdtemp(join(tmpdir(), "platform-bench-"));
  const paths = await makeDataDirectory(directory);
  const secrets = await loadSecrets(paths.secrets);
  const agentsDirectory = join(CHECKOUT, "bench/agents");
  const agents = await readAgents(CHECKOUT, agentsDirectory);
  await writeLanggraphConfig(paths.langgraphConfig, agents);
  const port = await freePort();
  let programs: Programs | undefined;
  const platform = new Platform({
    paths,
    secrets,
    output: SILENT,
    describePrograms: (postgres) => {
      programs = describePrograms({
        checkout: CHECKOUT,
        paths,
        agentsDirectory,
        agents,
        secrets,
        environment: process.env,
        demo: true,
        defaultModel: "demo/echo",
        port,
        databaseUrl: (role) => postgres.url(DATABASE, role, secrets.databasePasswords[role]),
      });
      return programs;
    },
  });
  await platform.start();
  if (programs === undefined) throw new Error("The platform started without its programs.");
  return {
    programs,
    secrets,
    token: DEV_TOKEN,
    async stop() {
      await platform.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
