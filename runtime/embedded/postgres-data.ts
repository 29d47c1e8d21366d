import { execFile } from "node:child_process";
import {
  chmod,
  chown,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { UserError } from "../common/errors.ts";
import { type Account, type Launch, launchAs, postgresAccount } from "./postgres-account.ts";
import { findPostgresBinaries, type PostgresBinaries } from "./postgres-binaries.ts";

const run = promisify(execFile);

/** Between the name of a data directory and that of the process that is making it. */
const UNFINISHED = ".new-";
/** Up to 5.5 s, in pauses that get longer: initdb takes 1 to 2 s in all. */
const WHILE_WRITTEN = { maxRetries: 10, retryDelay: 100 };

/** A data directory that PostgreSQL can be started on, and how. */
export interface PreparedData {
  binaries: PostgresBinaries;
  launch: Launch;
  majorVersion: string;
}

/**
 * Makes the data directory where there is none, all or nothing: initdb works beside it, and only
 * the finished directory gets the name.
 */
export async function prepareData(options: {
  directory: string;
  password: string;
  signal?: AbortSignal;
}): Promise<PreparedData> {
  const { directory } = options;
  const binaries = await findPostgresBinaries();
  const account = await postgresAccount(directory);
  const parent = dirname(directory);
  if (account !== undefined) await letPass(parent, account);
  const launch = await launchAs(account, [parent, dirname(binaries.postgres)]);
  const majorVersion = await binaryVersion(binaries);
  const existing = await dataVersion(directory);
  if (existing === undefined) {
    await initialise({ ...options, binaries, launch, account });
  } else if (existing !== majorVersion) {
    throw new UserError(
      "postgres_version",
      `The data in ${directory} was made by PostgreSQL ${existing}; this release brings ${majorVersion}.`,
      "Start the release that made it, or start with a new --data directory.",
    );
  } else if (account !== undefined) {
    await giveTo(account, directory);
  }
  return { binaries, launch, majorVersion };
}

/**
 * The directory is closed to everyone else; PostgreSQL's account may pass through (group: enter
 * only), which spares it a capability that would open the whole machine to it.
 */
async function letPass(directory: string, account: Account): Promise<void> {
  const { uid, gid } = await stat(directory);
  if (uid === account.uid) return;
  if (gid !== account.gid) await chown(directory, uid, account.gid);
  await chmod(directory, 0o710);
}

async function initialise(options: {
  directory: string;
  password: string;
  binaries: PostgresBinaries;
  launch: Launch;
  account: Account | undefined;
  signal?: AbortSignal;
}): Promise<void> {
  const { directory, launch, account, signal } = options;
  await removeUnfinished(directory);
  // A name of its own: the initdb of a start that was killed may still be at work on another.
  const unfinished = `${directory}${UNFINISHED}${process.pid}`;
  const passwordFile = `${unfinished}.password`;
  await mkdir(unfinished, { mode: 0o700 });
  await writeFile(passwordFile, options.password, { mode: 0o600 });
  if (account !== undefined) {
    await chown(unfinished, account.uid, account.gid);
    await chown(passwordFile, account.uid, account.gid);
  }
  const initdb = [options.binaries.initdb, `--pgdata=${unfinished}`, `--pwfile=${passwordFile}`];
  const choices = ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8"];
  const rest = ["--locale=C", "--no-instructions"];
  const [command = "", ...args] = [...launch.prefix, ...initdb, ...choices, ...rest];
  try {
    await run(command, args, { ...launch.account, cwd: "/", signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw initialisationFailure(directory, error);
  } finally {
    await rm(passwordFile, { force: true });
  }
  await rename(unfinished, directory);
}

async function removeUnfinished(directory: string): Promise<void> {
  const parent = dirname(directory);
  const prefix = `${basename(directory)}${UNFINISHED}`;
  for (const name of (await readdir(parent)).filter((entry) => entry.startsWith(prefix))) {
    // An initdb that outlived its start may still write there, until it finds its files gone.
    await rm(join(parent, name), { recursive: true, force: true, ...WHILE_WRITTEN });
  }
}

function initialisationFailure(directory: string, error: unknown): UserError {
  const output = error instanceof Error && "stderr" in error ? String(error.stderr).trim() : "";
  const text = output || (error instanceof Error ? error.message : String(error));
  return new UserError(
    "initdb_failed",
    `PostgreSQL could not make its data directory ${directory}.`,
    text,
  );
}

async function giveTo(account: Account, directory: string): Promise<void> {
  if ((await stat(directory)).uid === account.uid) return;
  await run("chown", ["-R", `${account.uid}:${account.gid}`, directory]);
}

async function binaryVersion(binaries: PostgresBinaries): Promise<string> {
  const { stdout } = await run(binaries.postgres, ["--version"]).catch((error: Error) => {
    throw new UserError(
      "postgres_does_not_run",
      "The PostgreSQL that npm installed does not run on this machine.",
      `${error.message.trim()}\nIt needs macOS, or a Linux with glibc (Alpine Linux has another C library).`,
    );
  });
  const version = stdout.match(/ (\d+)/)?.[1];
  if (version === undefined) throw new Error(`PostgreSQL names no version: ${stdout.trim()}`);
  return version;
}

async function dataVersion(directory: string): Promise<string | undefined> {
  try {
    return (await readFile(join(directory, "PG_VERSION"), "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
