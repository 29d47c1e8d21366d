import { statfs } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { UserError } from "../common/errors.ts";
import { platformOf, type RunningPlatform } from "./platform-holder.ts";
import { findPortHolder } from "./port-holder.ts";

const MEBIBYTE = 1024 * 1024;
/** The programs and PostgreSQL take about 500 MiB when idle. */
const NEEDED_MEMORY_MIB = 700;
/** A fresh database with its write-ahead log is about 60 MiB. */
const NEEDED_DISK_MIB = 300;
const ADDRESSES = ["127.0.0.1", "::1"];

/**
 * Looks at the machine before anything is started.
 *
 * @param dataDirectory An existing directory on the disk that will hold the data.
 * @throws UserError with what is short and what to do.
 */
export async function checkMachine(dataDirectory: string): Promise<void> {
  const memoryMib = Math.floor(process.availableMemory() / MEBIBYTE);
  // Elsewhere the figure leaves out memory that the system gives back when asked.
  if (process.platform === "linux" && memoryMib < NEEDED_MEMORY_MIB) {
    throw new UserError(
      "memory",
      `Only ${memoryMib} MiB of memory are available; the platform needs ${NEEDED_MEMORY_MIB} MiB.`,
      "Close other programs, or give the machine (or its container) more memory.",
    );
  }
  const { bavail, bsize } = await statfs(dataDirectory);
  const diskMib = Math.floor((bavail * bsize) / MEBIBYTE);
  if (diskMib < NEEDED_DISK_MIB) {
    throw new UserError(
      "disk",
      `Only ${diskMib} MiB are free on the disk of ${dataDirectory}; the platform needs ${NEEDED_DISK_MIB} MiB.`,
      "Free some space, or put the data on another disk with --data DIR.",
    );
  }
}

/** @throws UserError that names who listens on the port. */
export async function checkPortFree(port: number): Promise<void> {
  const taken = await Promise.all(ADDRESSES.map((address) => isTaken(address, port)));
  if (!taken.includes(true)) return;
  const holder = await findPortHolder(port);
  const platform = holder && (await platformOf(holder.pid));
  if (platform !== undefined) throw takenByPlatform(port, platform);
  const who =
    holder === undefined
      ? "a process that this account may not see"
      : `process ${holder.pid} (${holder.command})`;
  throw new UserError(
    "port_taken",
    `Port ${port} is taken by ${who}.`,
    "Stop it, or choose another port with --port N.",
  );
}

function takenByPlatform(port: number, { pid, dataDirectory }: RunningPlatform): UserError {
  const data = dataDirectory === undefined ? "" : `, data in ${dataDirectory}`;
  return new UserError(
    "port_taken",
    `Port ${port} is taken by another platform that runs here (process ${pid}${data}).`,
    `Stop it with Ctrl-C in its terminal or \`kill ${pid}\`, or choose another port with --port N.`,
  );
}

/**
 * Asks by connecting, too: where someone listens on all addresses, some systems still let others
 * bind one of them.
 */
async function isTaken(address: string, port: number): Promise<boolean> {
  return (await answers(address, port)) || !(await canListen(address, port));
}

function answers(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", () => settle(true));
    socket.once("error", () => settle(false));
  });
}

function canListen(address: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EACCES") reject(privileged(port));
      else resolve(error.code !== "EADDRINUSE");
    });
    server.listen(port, address, () => server.close(() => resolve(true)));
  });
}

function privileged(port: number): UserError {
  return new UserError(
    "port_privileged",
    `This account may not listen on port ${port}.`,
    "Choose a port above 1023 with --port N.",
  );
}
