import { link, readFile, rename, rm, unlink, writeFile } from "node:fs/promises";
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

/**
 * Takes the data directory for `mine`. A lock whose process is gone (`kill -9`, power cut) is
 * replaced.
 *
 * @returns the instance that holds it, or undefined when it is ours now.
 */
export async function takeLock(file: string, mine: Instance): Promise<Instance | undefined> {
  const candidate = `${file}.${mine.pid}`;
  // A link to a finished file: nobody ever reads half a lock.
  await writeFile(candidate, `${JSON.stringify(mine)}\n`, { mode: 0o600 });
  try {
    while (!(await linkIfFree(candidate, file))) {
      const holder = await livingHolder(file);
      if (holder !== undefined) return holder;
      await removeStale(file);
    }
    return undefined;
  } finally {
    await rm(candidate, { force: true });
  }
}

/** Gives the data directory back, if it is still ours. */
export async function releaseLock(file: string, mine: Instance): Promise<void> {
  const holder = await readInstance(file);
  if (holder?.pid === mine.pid && holder.processStart === mine.processStart) await unlink(file);
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

/**
 * Moves the lock aside before it is removed: where two starts find the same stale lock, the second
 * one may have moved the first one's fresh lock, and puts it back.
 */
async function removeStale(file: string): Promise<void> {
  const aside = `${file}.stale.${process.pid}`;
  try {
    await rename(file, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  if ((await livingHolder(aside)) !== undefined) await linkIfFree(aside, file);
  await rm(aside, { force: true });
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
