import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import type { ClusterInputs } from "../components/kind-provider/cluster.ts";
import { UserError } from "../runtime/common/errors.ts";
import { providerSettings } from "../runtime/model-gateway/providers/registry.ts";
import type { Arguments } from "./arguments.ts";

/** Settings that hold credentials: they go into the stack's configuration, encrypted. */
export const SECRET_SETTINGS = ["providers", "database", "cache"] as const;
export type SecretSettings = Partial<Record<(typeof SECRET_SETTINGS)[number], unknown>>;

/** Settings of a stack that come from the installer, by their name without `platform:`. */
export type Settings = Record<string, unknown>;

const settingsFile = z.record(z.string(), z.unknown());

/**
 * Where the installer keeps what it was told, so that a plain `pulumi up` of the same stack means
 * the same. Holds no credentials: those are {@link SecretSettings}.
 */
export function settingsPath(dataDirectory: string, stack: string): string {
  return join(dataDirectory, `settings-${stack}.json`);
}

/**
 * What the arguments, the file of `--config` and the environment ask for: what is secret by itself.
 * The providers are those of the environment; the file may add some.
 *
 * @param identity Of the cluster that there is: who names no other one means it.
 */
export async function gatherSettings(
  args: Arguments,
  environment: NodeJS.ProcessEnv,
  identity: Settings,
): Promise<{ settings: Settings; secrets: SecretSettings }> {
  const { providers, database, cache, ...file } =
    args.config === undefined ? {} : await readSettings(args.config);
  if ((file.cluster ?? "kind") !== "kind") throw notLocal(args.config);
  // What is no map goes on as it is: the stack names the key and says what it wants.
  const named = settingsFile.safeParse(providers ?? {});
  return {
    settings: {
      ...identity,
      ...file,
      ...(args.port !== undefined && { hostPort: args.port }),
      ...(args.clusterName !== undefined && { clusterName: args.clusterName }),
      ...(args.demo && { demo: true }),
      ...(!args.samples && { samples: false }),
    },
    secrets: {
      providers: named.success ? { ...providerSettings(environment), ...named.data } : providers,
      ...(database !== undefined && { database }),
      ...(cache !== undefined && { cache }),
    },
  };
}

/** The settings that make a cluster this one. */
export function identityOf({ name, hostPort }: ClusterInputs): Settings {
  return { clusterName: name, hostPort };
}

/** Those of a cluster that was asked for and is not there yet, or not any more. */
export function identityIn({ clusterName, hostPort }: Settings): Settings {
  return {
    ...(clusterName !== undefined && { clusterName }),
    ...(hostPort !== undefined && { hostPort }),
  };
}

function notLocal(path: string | undefined): UserError {
  return new UserError(
    "config_file",
    `${path}: platform:cluster must be kind here: ./install.sh installs on a cluster of its own.`,
    "For a cluster that is there, write a stack of its own: Pulumi.production.yaml.example shows how.",
  );
}

export async function writeSettings(path: string, settings: Settings): Promise<void> {
  await mkdir(join(path, ".."), { recursive: true, mode: 0o700 });
  await writeFile(path, `${JSON.stringify(settings, null, 2)}\n`, { mode: 0o600 });
  await chmod(path, 0o600);
}

/** What the installer was told at its last run; nothing if it never ran. */
export async function readKeptSettings(path: string): Promise<Settings> {
  try {
    return settingsFile.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
}

/**
 * Reads a file of settings: a map of `platform:<name>` or `<name>`, on top or under `config`, as in
 * a Pulumi stack file.
 *
 * @throws UserError
 */
async function readSettings(path: string): Promise<Settings> {
  let content: unknown;
  try {
    content = parse(await readFile(path, "utf8"));
  } catch (error) {
    throw new UserError(
      "config_file",
      `${path} can't be read: ${(error as Error).message}`,
      "--config takes a YAML or JSON file.",
    );
  }
  const map = settingsFile.safeParse(content);
  const inner = settingsFile.safeParse(map.data?.config ?? map.data);
  if (!inner.success) {
    throw new UserError(
      "config_file",
      `${path} holds no settings.`,
      "It needs a map such as: platform:images: {postgres: registry.example.com/postgres:17}",
    );
  }
  return Object.fromEntries(
    Object.entries(inner.data).map(([key, value]) => [key.replace(/^platform:/, ""), value]),
  );
}
