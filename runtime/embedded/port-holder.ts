import { execFile } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { promisify } from "node:util";
import { processCommand } from "./process-identity.ts";

const run = promisify(execFile);

/** State LISTEN in /proc/net/tcp. */
const LISTEN = "0A";

/** The process that listens on a port. */
export interface PortHolder {
  pid: number;
  command: string;
}

/** Who listens on a TCP port, as far as this account may see it. */
export async function findPortHolder(port: number): Promise<PortHolder | undefined> {
  const pid = process.platform === "linux" ? await pidFromProc(port) : await pidFromLsof(port);
  if (pid === undefined) return undefined;
  return { pid, command: (await processCommand(pid)) ?? "unknown command" };
}

async function pidFromProc(port: number): Promise<number | undefined> {
  const sockets = new Set(
    (await Promise.all(["tcp", "tcp6"].map((table) => listeningSockets(table, port)))).flat(),
  );
  if (sockets.size === 0) return undefined;
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    if (await holdsOneOf(pid, sockets)) return Number(pid);
  }
  return undefined;
}

/** The sockets (`socket:[inode]`) that listen on the port. */
async function listeningSockets(table: string, port: number): Promise<string[]> {
  const text = await readFile(`/proc/net/${table}`, "utf8").catch(absentOrClosed);
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return (text ?? "")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => local?.endsWith(wanted) && state === LISTEN)
    .map((fields) => `socket:[${fields[9]}]`);
}

async function holdsOneOf(pid: string, sockets: Set<string>): Promise<boolean> {
  const directory = `/proc/${pid}/fd`;
  for (const descriptor of (await readdir(directory).catch(absentOrClosed)) ?? []) {
    const target = await readlink(`${directory}/${descriptor}`).catch(absentOrClosed);
    if (target !== undefined && sockets.has(target)) return true;
  }
  return false;
}

/** Processes come and go while we look, and those of other accounts are closed to us. */
function absentOrClosed(error: NodeJS.ErrnoException): undefined {
  if (["ENOENT", "ESRCH", "EACCES", "EPERM"].includes(error.code ?? "")) return undefined;
  throw error;
}

async function pidFromLsof(port: number): Promise<number | undefined> {
  try {
    const { stdout } = await run("lsof", ["-nP", `-iTCP:${port}`, "-sTCP:LISTEN", "-t"]);
    const pid = Number(stdout.split("\n", 1)[0]);
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    // No lsof here, or nothing that this account may see: the caller says what it knows.
    return undefined;
  }
}
