import { randomUUID } from "node:crypto";
import { link, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { processStart } from "./process-identity.ts";

const instance = z.object({
  pid: z.number().int().positive(),
  /** When the process began, in the system's notation: ids of processes are used again. */
  processStart: z.string(),
  port: z.number().int(),
  startedAt: z.string(),
});

/** One start of the platform on a data directory. */
export type Instance = z.output<typeof instance>;

/** Describes this process as the instance that will serve on `port`. */
export async function thisInstance(port: number): Promise<Instance> {
  return {
    pid: process.pid,
    processStart: (await processStart(process.pid)) ?? "",
    port,
    startedAt: new Date().toISOString(),
  };
}

/** What a lock is about: a data directory, and the file that tells others about its instance. */
export interface LockPaths {
  directory: string;
  instance: string;
}

/** Locks are numbered: a stale one is not removed to take over, but followed by the next number. */
const LOCK = /^lock\.(\d+)$/;

/**
 * Takes a data directory for `mine`. A lock whose process is gone (`kill -9`, power cut) is
 * followed by the next one, which only one of many can make: of those that start at once, one wins.
 *
 * @returns the instance that holds it, or undefined when it is ours now.
 */
export async function takeLock(paths: LockPaths, mine: Instance): Promise<Instance | undefined> {
  const candidate = join(paths.directory, `candidate.${randomUUID()}`);
  // A link to a finished file: nobody ever reads half a lock.
  await writeFile(candidate, `${JSON.stringify(mine)}\n`, { mode: 0o600 });
  try {
    for (;;) {
      const numbers = await lockNumbers(paths.directory);
      const last = Math.max(0, ...numbers);
      const holder = last === 0 ? undefined : await livingHolder(lockFile(paths, last));
      if (holder !== undefined) return holder;
      if (!(await linkIfFree(candidate, lockFile(paths, last + 1)))) continue;
      await Promise.all(numbers.map((number) => rm(lockFile(paths, number), { force: true })));
      await rename(candidate, paths.instance);
      return undefined;
    }
  } finally {
    await rm(candidate, { force: true });
  }
}

/** Gives the data directory back, if it is still ours. */
export async function releaseLock(paths: LockPaths, mine: Instance): Promise<void> {
  const last = Math.max(0, ...(await lockNumbers(paths.directory)));
  const holder = last === 0 ? undefined : await readInstance(lockFile(paths, last));
  if (holder?.pid !== mine.pid || holder.processStart !== mine.processStart) return;
  await rm(paths.instance, { force: true });
  await rm(lockFile(paths, last), { force: true });
}

function lockFile({ directory }: LockPaths, number: number): string {
  return join(directory, `lock.${number}`);
}

async function lockNumbers(directory: string): Promise<number[]> {
  const names = await readdir(directory);
  return names.flatMap((name) => {
    const number = name.match(LOCK)?.[1];
    return number === undefined ? [] : [Number(number)];
  });
}

async function linkIfFree(candidate: string, file: string): Promise<boolean> {
  try {
    await link(candidate, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function livingHolder(file: string): Promise<Instance | undefined> {
  const holder = await readInstance(file);
  if (holder === undefined) return undefined;
  return (await processStart(holder.pid)) === holder.processStart ? holder : undefined;
}

async function readInstance(file: string): Promise<Instance | undefined> {
  try {
    return instance.parse(JSON.parse(await readFile(file, "utf8")));
  } catch (error) {
    // A lock that says nothing readable is nobody's: written by hand, or by another release.
    const unreadable = error instanceof SyntaxError || error instanceof z.ZodError;
    if (unreadable || (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
