import type { ChildProcess } from "node:child_process";
import type { OnWaiting } from "./wait.ts";

/** A process of ours that can be started, stopped, and started again after it died. */
export interface Service {
  /** For people, e.g. `Model gateway`. */
  readonly title: string;
  readonly logFile: string;
  /** Comes back when the service is ready; it can be called again after a death. */
  start(onWaiting: OnWaiting): Promise<void>;
  /** Asks the service to leave and ends it after `graceMs`. */
  stop(graceMs: number): Promise<void>;
  /** Ends the service at once. */
  kill(): void;
  /** Settles with how it died, when the process that `start` made is gone. */
  death(): Promise<string>;
}

/** How a process ended, in words. */
export function describeExit(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`;
}

/** Settles with the reason when the process is gone, or could not be made at all. */
export function whenGone(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(describeExit(code, signal)));
  });
}

/** Sends a signal to a process and all it has started; nothing happens where it is gone. */
export function signalGroup(child: ChildProcess | undefined, signal: NodeJS.Signals): void {
  if (child?.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** True where the promise settled within `patienceMs`. */
export async function settledWithin(promise: Promise<unknown>, patienceMs: number) {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, patienceMs, false);
  });
  const settled = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return settled;
}
