import { realpath } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { DEV_TOKEN } from "../common/dev-token.ts";
import { UserError } from "../common/errors.ts";
import { defaultModel, PROVIDER_VARIABLES } from "../model-gateway/providers/registry.ts";
import { readAgents, writeLanggraphConfig } from "./agents.ts";
import { type Arguments, readArguments, USAGE } from "./arguments.ts";
import { ConsoleOutput } from "./console-output.ts";
import { type DataPaths, makeDataDirectory } from "./data-directory.ts";
import { DATABASE } from "./database.ts";
import { deployedLine, footer } from "./footer.ts";
import { type Instance, releaseLock, takeLock, thisInstance } from "./instance-lock.ts";
import { checkMachine, checkPortFree } from "./machine-checks.ts";
import { Platform } from "./platform.ts";
import { CONSOLE_EMAIL, describePrograms } from "./programs.ts";
import { loadSecrets } from "./secrets.ts";

/** A second Ctrl-C: the shell's code for "ended by SIGINT". */
const FORCED = 130;
const CHECKOUT = await realpath(resolve(import.meta.dirname, "../.."));
const output = new ConsoleOutput(process.stdout, process.env);

async function main(): Promise<void> {
  const args = readArguments(process.argv.slice(2), CHECKOUT);
  if (args.help) return output.line(USAGE);
  const model = chooseModel(args, process.env);
  const paths = await makeDataDirectory(args.data);
  const mine = await thisInstance(args.port);
  const holder = await takeLock(paths, mine);
  if (holder !== undefined) throw alreadyRunning(holder, paths);
  try {
    await checkPortFree(args.port);
    await checkMachine(paths.directory);
    await run(args, paths, model);
  } finally {
    await releaseLock(paths, mine);
  }
}

async function run(args: Arguments, paths: DataPaths, model: string): Promise<void> {
  const secrets = await loadSecrets(paths.secrets);
  const { agents } = await output.step("Reading agents", async (wait) => {
    return { title: "Agents", agents: await readAgents(CHECKOUT, args.agents, wait) };
  });
  const agentsDirectory = await realpath(args.agents);
  await writeLanggraphConfig(paths.langgraphConfig, agents);
  const platform = new Platform({
    paths,
    secrets,
    output,
    describePrograms: (postgres) =>
      describePrograms({
        checkout: CHECKOUT,
        paths,
        agentsDirectory,
        agents,
        secrets,
        environment: process.env,
        demo: args.demo,
        defaultModel: model,
        port: args.port,
        databaseUrl: (role) => postgres.url(DATABASE, role, secrets.databasePasswords[role]),
      }),
  });
  const stopAsked = whenStopAsked(() => platform.kill());
  try {
    const started = platform.start().then(() => "started" as const);
    if ((await Promise.race([started, stopAsked])) === "started") {
      output.line(deployedLine(shown(paths.directory)));
      output.line(
        footer({
          port: args.port,
          graphIds: agents.map(({ graphId }) => graphId),
          defaultModel: model,
          demo: model.startsWith("demo/"),
          token: DEV_TOKEN,
          console: { email: CONSOLE_EMAIL, password: secrets.consolePassword },
          dataDirectory: shown(paths.directory),
          logs: shown(paths.logs),
        }),
      );
      await Promise.race([platform.keepRunning(), stopAsked]);
    }
    output.line("Stopping…");
  } finally {
    await platform.stop();
  }
  output.done("Stopped.");
}

/** Settles at the first signal; the second one ends everything at once. */
function whenStopAsked(force: () => void): Promise<"stop"> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = () => {
      if (asked) {
        force();
        process.exit(FORCED);
      }
      asked = true;
      resolve("stop");
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  });
}

/** @throws UserError where neither a provider nor the demo may answer. */
function chooseModel(args: Arguments, environment: NodeJS.ProcessEnv): string {
  const { DEMO_PROVIDER: _, ...withoutDemo } = environment;
  const model = defaultModel(args.demo ? { ...withoutDemo, DEMO_PROVIDER: "true" } : withoutDemo);
  const hasProvider = PROVIDER_VARIABLES.some((name) => environment[name]);
  if (model !== undefined && (hasProvider || args.demo)) return model;
  throw new UserError(
    "no_provider",
    "No model provider is configured.",
    `Set at least one of:\n${PROVIDER_VARIABLES.map((name) => `  ${name}`).join("\n")}\nor try it offline with --demo.`,
  );
}

function alreadyRunning(holder: Instance, paths: DataPaths): UserError {
  return new UserError(
    "already_running",
    `The platform is already running on ${shown(paths.directory)}: http://localhost:${holder.port} (process ${holder.pid}).`,
    `Stop it with Ctrl-C in its terminal or \`kill ${holder.pid}\`, or start another one with --data DIR --port N.`,
    3,
  );
}

/** A path as the reader would write it. */
function shown(path: string): string {
  const near = relative(process.cwd(), path);
  return near === "" || near.startsWith("..") ? path : near;
}

try {
  await main();
  process.exit(0);
} catch (error) {
  const verbose = process.argv.includes("--verbose");
  if (error instanceof UserError) {
    console.error(`\nError: ${error.message}\n\n${error.hint}`);
    if (verbose) console.error(error.stack);
    process.exit(error.exitCode);
  }
  const text = error instanceof Error ? (verbose ? error.stack : error.message) : String(error);
  const hint = verbose
    ? ""
    : "\n\nThis is a bug of the platform. --verbose shows where it happened.";
  console.error(`\nError: ${text}${hint}`);
  process.exit(1);
}
