import { mkdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../common/errors.ts";

/** What lies where in the data directory. */
export interface DataPaths {
  directory: string;
  secrets: string;
  /** The running instance, for others to know of it. */
  instance: string;
  postgres: string;
  langgraphConfig: string;
  logs: string;
}

function dataPaths(directory: string): DataPaths {
  return {
    directory,
    secrets: join(directory, "secrets.json"),
    instance: join(directory, "embedded.json"),
    postgres: join(directory, "postgres"),
    langgraphConfig: join(directory, "langgraph.json"),
    logs: join(directory, "logs"),
  };
}

/** The log of one program. */
export function logFile(paths: DataPaths, program: string): string {
  return join(paths.logs, `${program}.log`);
}

/**
 * Makes the data directory and that of the logs, closed to other accounts: secrets lie here, and a
 * program's error may quote a prompt.
 *
 * @returns its paths without symbolic links, since Node's permission model compares real ones.
 * @throws UserError where it can't be made, or is another account's.
 */
export async function makeDataDirectory(wanted: string): Promise<DataPaths> {
  try {
    await mkdir(wanted, { recursive: true, mode: 0o700 });
    const paths = dataPaths(await realpath(wanted));
    const { uid } = await stat(paths.directory);
    const me = process.getuid?.();
    if (me !== undefined && me !== uid) throw belongsToAnother(paths.directory, uid);
    await mkdir(paths.logs, { recursive: true, mode: 0o700 });
    return paths;
  } catch (error) {
    if (!(error instanceof Error) || !("syscall" in error)) throw error;
    throw new UserError(
      "data_directory",
      `The data directory ${wanted} can't be used: ${error.message}.`,
      "Choose another one with --data DIR.",
    );
  }
}

function belongsToAnother(directory: string, uid: number): UserError {
  return new UserError(
    "data_directory",
    `The data directory ${directory} belongs to another account (uid ${uid}).`,
    "Start the platform as that account, or choose another directory with --data DIR.",
  );
}
