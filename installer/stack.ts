import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  ConcurrentUpdateError,
  type Deployment,
  LocalWorkspace,
  type Stack,
} from "@pulumi/pulumi/automation/index.js";
import { parseDocument } from "yaml";
import { type ClusterInputs, clusterInputs } from "../components/kind-provider/cluster.ts";
import { run } from "../components/kind-provider/commands.ts";
import { hasImage } from "../components/kind-provider/docker-images.ts";
import { isThere } from "../components/kind-provider/is-there.ts";
import { UserError } from "../runtime/common/errors.ts";
import { SECRET_SETTINGS, type SecretSettings } from "./settings.ts";

export const STACK = "local";

/**
 * The local stack: state in `.platform/state`, secrets encrypted with a passphrase of its own
 * (`.platform/passphrase`, 0600).
 */
export async function openStack(checkout: string, dataDirectory: string): Promise<Stack> {
  // Pulumi would take it before our file: an empty one, as many export it, encrypts with no secret.
  delete process.env.PULUMI_CONFIG_PASSPHRASE;
  const environment = await stackEnvironment(checkout, dataDirectory);
  Object.assign(process.env, environment);
  return await LocalWorkspace.createOrSelectStack(
    { stackName: STACK, workDir: checkout },
    { envVars: environment },
  );
}

function ownBackend(dataDirectory: string): string {
  return `file://${join(dataDirectory, "state")}`;
}

/** What a plain `pulumi` needs to mean the same stack; an environment that says otherwise wins. */
export async function stackEnvironment(
  checkout: string,
  dataDirectory: string,
): Promise<Record<string, string>> {
  await mkdir(join(dataDirectory, "state"), { recursive: true, mode: 0o700 });
  const passphraseFile = join(dataDirectory, "passphrase");
  if (!(await isThere(passphraseFile))) {
    await startAnew(checkout, dataDirectory);
    await writeFile(passphraseFile, randomBytes(24).toString("base64url"), {
      mode: 0o600,
      flag: "wx",
    });
  }
  return {
    PULUMI_BACKEND_URL: process.env.PULUMI_BACKEND_URL ?? ownBackend(dataDirectory),
    PULUMI_CONFIG_PASSPHRASE_FILE: passphraseFile,
    PULUMI_SKIP_UPDATE_CHECK: "true",
  };
}

/**
 * Drops secrets of the stack's file that a lost passphrase encrypted: the installer is given them anew.
 *
 * @throws UserError where the stack has a state, whose secrets nobody can read any more.
 */
async function startAnew(checkout: string, dataDirectory: string): Promise<void> {
  if (await isThere(join(dataDirectory, "state/.pulumi/stacks/platform", `${STACK}.json`))) {
    throw new UserError(
      "passphrase_lost",
      `The passphrase of the stack's secrets is gone: ${join(dataDirectory, "passphrase")}.`,
      `Put it back. If it is lost: kind delete cluster --name <its cluster>, rm -r ${dataDirectory}, and install again.`,
    );
  }
  const path = stackFile(checkout);
  const document = parseDocument(await readFile(path, "utf8"));
  if (!document.has("encryptionsalt")) return;
  document.delete("encryptionsalt");
  for (const name of SECRET_SETTINGS) document.deleteIn(["config", `platform:${name}`]);
  await writeFile(path, document.toString({ lineWidth: 0 }));
}

function stackFile(checkout: string): string {
  return join(checkout, `Pulumi.${STACK}.yaml`);
}

/**
 * Does something with the stack. A lock that a killed run left behind is removed; one of a run that
 * is alive is not.
 *
 * @throws UserError while another update runs.
 */
export async function unlocked<T>(
  stack: Stack,
  dataDirectory: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ConcurrentUpdateError)) throw error;
    if (process.env.PULUMI_BACKEND_URL !== ownBackend(dataDirectory)) throw elsewhereLocked();
    const holder = await lockHolder(dataDirectory);
    if (holder !== undefined) {
      throw new UserError(
        "update_running",
        `Another update of this stack is running (process ${holder}).`,
        "Wait for it, or stop it, then try again.",
      );
    }
    await stack.cancel();
    return await work();
  }
}

/**
 * Puts secrets into the stack's configuration, as `pulumi config set --secret` does, so that a plain
 * `pulumi up` has them. Their values go by standard input: arguments are for everybody to see.
 */
export async function setSecrets(
  command: string,
  checkout: string,
  secrets: SecretSettings,
): Promise<void> {
  for (const [name, value] of Object.entries(secrets)) {
    await run(
      command,
      [
        ...["config", "set", "--secret", `platform:${name}`],
        ...["--stack", STACK, "--cwd", checkout, "--non-interactive"],
      ],
      JSON.stringify(value),
    );
  }
}

/** The type of the resource that is the cluster. */
export const CLUSTER_TYPE = "kindlocal:index:Cluster";

/** The cluster that the stack has made. */
export function installedCluster(deployment: Deployment): ClusterInputs | undefined {
  const found = resourcesOf(deployment).find(({ type }) => type === CLUSTER_TYPE);
  return clusterInputs.safeParse(found?.inputs).data;
}

/** Whether an update ended while things were being made, so that their fate is not known. */
export function wasInterrupted(deployment: Deployment): boolean {
  return (deployment.deployment?.pending_operations ?? []).length > 0;
}

/**
 * Images that the stack built and Docker has no more (`docker system prune`), by their URNs. Pulumi's
 * Docker provider never looks whether they are there, and others are built upon them.
 */
export async function lostImages(deployment: Deployment): Promise<string[]> {
  const lost: string[] = [];
  for (const { type, urn, outputs } of resourcesOf(deployment)) {
    if (type !== "docker:index/image:Image" || outputs?.imageName === undefined) continue;
    if (!(await hasImage(outputs.imageName))) lost.push(urn);
  }
  return lost;
}

function resourcesOf({ deployment }: Deployment): StateResource[] {
  return deployment?.resources ?? [];
}

/** What of a resource in a state matters here. */
interface StateResource {
  urn: string;
  type: string;
  inputs?: unknown;
  outputs?: { imageName?: string };
}

/** Who holds a lock in a backend of the user's own can't be told. */
function elsewhereLocked(): UserError {
  return new UserError(
    "update_running",
    "Another update of this stack is running, or was killed.",
    `Wait for it. If none runs: npx pulumi cancel --stack ${STACK}`,
  );
}

/** The process that holds a lock of the file backend and is alive. */
async function lockHolder(dataDirectory: string): Promise<number | undefined> {
  const locks = join(dataDirectory, "state/.pulumi/locks");
  for (const entry of await readdir(locks, { recursive: true })) {
    if (!entry.endsWith(".json")) continue;
    const { pid } = JSON.parse(await readFile(join(locks, entry), "utf8"));
    if (typeof pid === "number" && isAlive(pid)) return pid;
  }
  return undefined;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/**
 * Forgets the stack once nothing of it is left. Its file is everybody's: what this machine wrote into
 * it goes, and the rest stays to the letter.
 */
export async function forget(stack: Stack, checkout: string, paths: string[]): Promise<void> {
  await stack.removeAllConfig(SECRET_SETTINGS.map((name) => `platform:${name}`));
  await stack.workspace.removeStack(STACK, { preserveConfig: true });
  await withoutSalt(stackFile(checkout));
  for (const path of paths) await rm(path, { recursive: true, force: true });
}

/** Pulumi keeps the salt of a passphrase where secrets were; it makes a new one where it finds none. */
async function withoutSalt(path: string): Promise<void> {
  const text = await readFile(path, "utf8");
  const kept = text.replace(/^encryptionsalt: .*\n?/m, "");
  if (kept !== text) await writeFile(path, kept);
}
