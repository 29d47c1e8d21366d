import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../common/errors.ts";
import { processCommand, processStart } from "./process-identity.ts";
import { until } from "./wait.ts";

const FAST_MS = 10_000;
const IMMEDIATE_MS = 5_000;

/**
 * Stops a PostgreSQL that an earlier start left running on this data, and clears a lock file that
 * names a process which is not PostgreSQL any more. A lock file of a dead process stays: PostgreSQL
 * itself checks by it that no backend of the dead one is still at the data.
 */
export async function stopLeftoverPostgres(dataDirectory: string): Promise<void> {
  const lockFile = join(dataDirectory, "postmaster.pid");
  const pid = await readPid(lockFile);
  if (pid === undefined) return;
  const started = await processStart(pid);
  if (started === undefined) return;
  const command = (await processCommand(pid)) ?? "";
  if (!command.includes("postgres") || !command.includes(dataDirectory)) {
    await rm(lockFile, { force: true });
    return;
  }
  const gone = async () => ((await processStart(pid)) === started ? undefined : true);
  process.kill(pid, "SIGINT");
  if (await until(gone, FAST_MS)) return;
  process.kill(pid, "SIGQUIT");
  if (await until(gone, IMMEDIATE_MS)) return;
  throw new UserError(
    "postgres_left_over",
    `A PostgreSQL of an earlier start (process ${pid}) does not stop.`,
    `Stop it with \`kill -9 ${pid}\` and start again.`,
  );
}

async function readPid(lockFile: string): Promise<number | undefined> {
  try {
    const pid = Number((await readFile(lockFile, "utf8")).split("\n", 1)[0]);
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
