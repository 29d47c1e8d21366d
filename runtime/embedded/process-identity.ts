import { execFile } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * When a process began, in the system's own notation; undefined where there is no such process.
 * Together with its id that names one process: ids are used again.
 */
export async function processStart(pid: number): Promise<string | undefined> {
  if (process.platform !== "linux") return ps(pid, "lstart=");
  const stat = await readProc(pid, "stat");
  // The command stands in parentheses and may hold anything; the fields after it are plain.
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state] = fields ?? [];
  return state === "Z" ? undefined : fields?.[19];
}

/** The command line of a process, where we may see it. */
export async function processCommand(pid: number): Promise<string | undefined> {
  return (await processArguments(pid))?.join(" ").trim();
}

/** The same by its parts; elsewhere than on Linux one that holds spaces is several. */
export async function processArguments(pid: number): Promise<string[] | undefined> {
  if (process.platform !== "linux") return (await ps(pid, "command="))?.split(" ");
  return (await readProc(pid, "cmdline"))?.replace(/\0$/, "").split("\0");
}

/** Whose child a process is. */
export async function processParent(pid: number): Promise<number | undefined> {
  const parent = Number(await ps(pid, "ppid="));
  return Number.isSafeInteger(parent) && parent > 0 ? parent : undefined;
}

/** Where a process stands; known on Linux only. */
export async function processDirectory(pid: number): Promise<string | undefined> {
  // Gone, another account's, or a system without /proc.
  return readlink(`/proc/${pid}/cwd`).catch(() => undefined);
}

async function readProc(pid: number, file: string): Promise<string | undefined> {
  try {
    return await readFile(`/proc/${pid}/${file}`, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ESRCH" || code === "EACCES") return undefined;
    throw error;
  }
}

async function ps(pid: number, field: string): Promise<string | undefined> {
  try {
    const { stdout } = await run("ps", ["-o", field, "-p", String(pid)]);
    return stdout.trim() || undefined;
  } catch {
    // `ps` fails where there is no such process.
    return undefined;
  }
}
