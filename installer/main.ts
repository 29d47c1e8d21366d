import { join, resolve } from "node:path";
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { type ClusterInputs, clusterExists } from "../components/kind-provider/cluster.ts";
import { CommandMissing } from "../components/kind-provider/commands.ts";
import { DEV_TOKEN } from "../runtime/common/dev-token.ts";
import { UserError } from "../runtime/common/errors.ts";
import { ConsoleOutput, seconds } from "../runtime/embedded/console-output.ts";
import { PROVIDER_VARIABLES } from "../runtime/model-gateway/providers/registry.ts";
import { type Arguments, readArguments, USAGE } from "./arguments.ts";
import type { Following } from "./following.ts";
import { deployedLine, footer } from "./footer.ts";
import { Progress } from "./progress.ts";
import { replaceCluster } from "./replace-cluster.ts";
import {
  gatherSettings,
  identityIn,
  identityOf,
  readKeptSettings,
  settingsPath,
  writeSettings,
} from "./settings.ts";
import {
  forget,
  installedCluster,
  lostImages,
  openStack,
  STACK,
  setSecrets,
  unlocked,
  wasInterrupted,
} from "./stack.ts";

const CHECKOUT = resolve(import.meta.dirname, "..");
const DATA = join(CHECKOUT, ".platform");
const SETTINGS = settingsPath(DATA, STACK);
const INTERRUPTED = 130;
const GO_ON = "Run ./install.sh again: it goes on where it stopped.";
const output = new ConsoleOutput(process.stdout, process.env);

async function main(args: Arguments): Promise<void> {
  if (args.help) return output.line(USAGE);
  if (args.uninstall) return await uninstall(args);
  requireProvider(args);
  await install(args);
}

async function install(args: Arguments): Promise<void> {
  const began = performance.now();
  const stack = await openStack(CHECKOUT, DATA);
  const before = await stack.exportStack();
  const installed = installedCluster(before);
  const identity = installed ? identityOf(installed) : identityIn(await readKeptSettings(SETTINGS));
  const { settings, secrets } = await gatherSettings(args, process.env, identity);
  await writeSettings(SETTINGS, settings);
  await setSecrets(stack.workspace.pulumiCommand.command, CHECKOUT, secrets);
  let isReplaced = false;
  const update = observed(args, (following, goOn) =>
    unlocked(stack, DATA, async () => {
      if (wasInterrupted(before)) await stack.refresh({ ...following, clearPendingCreates: true });
      if (args.replaceCluster) isReplaced = await replace(stack, following, goOn);
      const lost = await lostImages(before);
      goOn();
      return (await stack.up({ ...following, replace: lost, refresh: true })).outputs;
    }),
  );
  const outputs = await update.catch(async (error) => {
    // Where another cluster was refused, a plain `pulumi up` is to go on with the one that there is.
    const left = isReplaced ? undefined : await clusterLeft(stack);
    if (left !== undefined) await writeSettings(SETTINGS, { ...settings, ...identityOf(left) });
    throw error;
  });
  const value = (name: string) => outputs[name]?.value;
  const clusterName: string = value("clusterName");
  output.done(`ready after ${seconds(performance.now() - began)}`);
  output.line(deployedLine(clusterName));
  output.line(
    footer({
      url: value("url"),
      clusterName,
      kubeconfig: value("kubeconfig"),
      agentsNamespace: value("agentsNamespace"),
      graphIds: value("graphIds"),
      defaultModel: value("defaultLlmModel"),
      token: DEV_TOKEN,
      tracing: value("tracing"),
      unsandboxed: value("unsandboxed"),
    }),
  );
}

async function uninstall(args: Arguments): Promise<void> {
  const stack = await openStack(CHECKOUT, DATA);
  const installed = installedCluster(await stack.exportStack());
  const clusterName = args.clusterName ?? installed?.name ?? "platform";
  await observed(args, (options) => unlocked(stack, DATA, () => stack.destroy(options)));
  await forget(stack, CHECKOUT, [SETTINGS]);
  if (await isLeft(clusterName)) {
    output.warn(
      `There is still a kind cluster ${clusterName}, which this checkout knows nothing of.`,
    );
    return output.line(`If it may go: kind delete cluster --name ${clusterName}`);
  }
  output.line(
    "Platform and its cluster are gone. Images and downloaded files stay for the next time.",
  );
}

async function replace(stack: Stack, following: Following, goOn: () => void): Promise<boolean> {
  // Fails while another update runs, and learns of a cluster that was deleted by hand.
  await stack.refresh(following);
  const gone = await replaceCluster(stack, following, goOn);
  if (gone !== undefined) output.done(`removed kind cluster: ${gone}`);
  return gone !== undefined;
}

async function clusterLeft(stack: Stack): Promise<ClusterInputs | undefined> {
  try {
    return installedCluster(await stack.exportStack());
  } catch {
    // The error at hand says more.
    return undefined;
  }
}

/** Whether there is a cluster that the stack's state did not know. */
async function isLeft(clusterName: string): Promise<boolean> {
  try {
    return await clusterExists(clusterName);
  } catch (error) {
    // Without kind there is no cluster of it.
    if (error instanceof CommandMissing) return false;
    throw error;
  }
}

/**
 * Runs an update with readable progress; Ctrl-C lets what is under way end and stops. A terminal
 * gives Ctrl-C to Pulumi as well, which takes a second one as an order to drop everything: ours is
 * passed on only when it comes twice.
 */
async function observed<T>(
  args: Arguments,
  work: (following: Following, goOn: () => void) => Promise<T>,
): Promise<T> {
  const progress = new Progress(output);
  const controller = new AbortController();
  let interrupted = false;
  const interrupt = () => {
    if (interrupted) return controller.abort();
    interrupted = true;
    output.warn("stopping once what is under way has ended; Ctrl-C again stops at once");
  };
  const terminate = () => {
    interrupted = true;
    controller.abort();
  };
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", terminate);
  try {
    const following: Following = {
      onEvent: (event) => progress.handle(event),
      ...(args.verbose && { onOutput: (text) => process.stdout.write(text) }),
      signal: controller.signal,
      color: "never",
    };
    return await work(following, () => {
      if (interrupted) throw stopped();
    });
  } catch (error) {
    if (interrupted) throw stopped();
    if (error instanceof UserError || progress.errors.length === 0) throw error;
    throw new UserError(
      "update_failed",
      [...new Set(progress.errors)].join("\n"),
      `Mend that. ${GO_ON} --verbose shows Pulumi's own output.`,
    );
  } finally {
    progress.end();
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", terminate);
  }
}

function stopped(): UserError {
  return new UserError("interrupted", "Stopped.", GO_ON, INTERRUPTED);
}

function requireProvider({ demo }: Arguments): void {
  if (demo || PROVIDER_VARIABLES.some((name) => process.env[name])) return;
  throw new UserError(
    "no_provider",
    "No model provider is configured.",
    `Set at least one of:\n${PROVIDER_VARIABLES.map((name) => `  ${name}`).join("\n")}\nor try it offline with --demo.`,
  );
}

let verbose = false;
try {
  const args = readArguments(process.argv.slice(2));
  verbose = args.verbose;
  await main(args);
  // The Automation API keeps a server open.
  process.exit(0);
} catch (error) {
  const isUsers = error instanceof UserError;
  process.stderr.write(`\nError: ${(error as Error).message}\n`);
  if (isUsers) process.stderr.write(`\n${error.hint}\n`);
  if (!isUsers || verbose) process.stderr.write(`${(error as Error).stack}\n`);
  process.exit(isUsers ? error.exitCode : 1);
}
