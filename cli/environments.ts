import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, realpath, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { UserError } from "../runtime/common/errors.ts";

/** What an environment may be called. */
export const environmentName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, "takes letters, digits, dots, _ and -, at most 63");

/** Where agents live, and how to reach them. */
export const environment = z.strictObject({
  /** Context of the kubeconfig. */
  kubeContext: z.string().min(1),
  namespace: z.string().min(1),
  /** URL of the agent front door, if it is not the context's usual one. */
  agentsHost: z.url().optional(),
  /** Bearer token for the front door. */
  token: z.string().min(1).optional(),
});
export type Environment = z.output<typeof environment>;

const file = z.strictObject({
  version: z.literal(1),
  current: z.string().nullable(),
  environments: z.record(environmentName, environment),
});

/** All environments, and which of them is selected. */
export interface Environments {
  current: string | undefined;
  all: Map<string, Environment>;
}

/** Where environments are kept. */
export interface EnvironmentStore {
  /** For messages. */
  readonly path: string;
  /** @throws UserError where the file is there but can't be understood. */
  read(): Promise<Environments>;
  write(environments: Environments): Promise<void>;
}

/**
 * Keeps environments in one file that only its owner can read, as tokens may be in it. It is
 * replaced as a whole, so that a full disk or a power cut leaves the old one.
 */
export function createEnvironmentStore(configHome: string): EnvironmentStore {
  const path = join(configHome, "agentctl", "environments.json");
  return {
    path,
    async read() {
      const text = await readIfThere(path);
      if (text === undefined) return { current: undefined, all: new Map() };
      const { current, environments } = understand(text, path);
      return { current: current ?? undefined, all: new Map(Object.entries(environments)) };
    },
    async write({ current, all }) {
      const content: z.output<typeof file> = {
        version: 1,
        current: current ?? null,
        environments: Object.fromEntries(all),
      };
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await replace(await target(path), `${JSON.stringify(content, null, 2)}\n`);
    },
  };
}

function understand(text: string, path: string): z.output<typeof file> {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw corrupt(path, "it is not JSON");
  }
  const result = file.safeParse(content);
  if (result.success) return result.data;
  const problems = result.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
  throw corrupt(path, problems.join("; "));
}

function corrupt(path: string, why: string): UserError {
  return new UserError(
    "corrupt_environments",
    `The environments in ${path} can't be understood: ${why}.`,
    "Mend the file, or move it away and add the environments again. It was left as it is.",
  );
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** The file behind a symbolic link, as people's dotfiles have them. */
async function target(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (isMissing(error)) return path;
    throw error;
  }
}

async function replace(path: string, text: string): Promise<void> {
  const fresh = `${path}.${randomUUID()}`;
  const handle = await open(fresh, "wx", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
    await handle.close();
    await rename(fresh, path);
  } catch (error) {
    await handle.close();
    await rm(fresh, { force: true });
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
