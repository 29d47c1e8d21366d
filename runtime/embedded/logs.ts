import { mkdir, open, rename, rm } from "node:fs/promises";
import { UserError } from "../common/errors.ts";

/** Logs of earlier starts that are kept: `<name>.log.1` (the last one) to `.3`. */
const KEPT = 3;
const TAIL_BYTES = 16_384;

/** Makes room for the log of a new start: `x.log` becomes `x.log.1`, and so on. */
export async function rotateLog(file: string): Promise<void> {
  await rm(`${file}.${KEPT}`, { force: true });
  for (let age = KEPT - 1; age >= 0; age--) {
    await moveIfThere(age === 0 ? file : `${file}.${age}`, `${file}.${age + 1}`);
  }
}

async function moveIfThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

/** The directory of the logs: prompts and answers may stand in a program's error. */
export async function makeLogDirectory(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
}

/** The last lines of a log; empty where there is none yet. */
export async function tailLog(file: string, lines: number): Promise<string> {
  try {
    const handle = await open(file);
    try {
      const { size } = await handle.stat();
      const length = Math.min(size, TAIL_BYTES);
      const { buffer, bytesRead } = await handle.read(
        Buffer.alloc(length),
        0,
        length,
        size - length,
      );
      const text = buffer.subarray(0, bytesRead).toString("utf8").trimEnd();
      return text.split("\n").slice(-lines).join("\n");
    } finally {
      await handle.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

/** A program that did not come up: which one, why, the last lines of its log, where the rest is. */
export async function startFailure(
  title: string,
  reason: string,
  logFile: string,
): Promise<UserError> {
  const tail = await tailLog(logFile, 15);
  const excerpt = tail === "" ? "Its log is empty." : `The last lines of its log:\n${indent(tail)}`;
  return new UserError(
    "start_failed",
    `${title} did not start: ${reason}.`,
    `${excerpt}\nThe whole log: ${logFile}`,
  );
}

function indent(text: string): string {
  return text.replace(/^/gm, "  | ");
}
