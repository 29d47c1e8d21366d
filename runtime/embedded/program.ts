import { type ChildProcess, fork } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { get } from "node:http";
import { z } from "zod";
import { startFailure } from "./logs.ts";
import { type Service, settledWithin, signalGroup, whenGone } from "./service.ts";
import { type OnWaiting, until } from "./wait.ts";

const START_PATIENCE_MS = 60_000;
const PROBE_MS = 2_000;
/** What a program sends once it listens (common/server.ts). */
const listening = z.object({ listening: z.number().int() });

export interface ProgramOptions {
  /** For people, e.g. `Model gateway`. */
  title: string;
  /** Its `main.ts`. */
  entry: string;
  /** All of its environment; nothing is inherited. Called for every start. */
  environment: () => Record<string, string>;
  /** Node's own flags. */
  nodeFlags: string[];
  /** 0: the system chooses at the first start, and later starts keep the port. */
  port: number;
  logFile: string;
}

/** One of the platform's programs as a child process, told to leave when we are gone. */
export class Program implements Service {
  readonly title: string;
  readonly logFile: string;
  readonly #options: ProgramOptions;
  #port: number;
  #process: ChildProcess | undefined;
  #death: Promise<string> = new Promise(() => {});

  constructor(options: ProgramOptions) {
    this.title = options.title;
    this.logFile = options.logFile;
    this.#options = options;
    this.#port = options.port;
  }

  /** Where it answers, once started. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The process that runs now; the benchmarks look at its memory. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  async start(onWaiting: OnWaiting): Promise<void> {
    let died: string | undefined;
    let port: number | undefined;
    const child = this.#spawn();
    void this.#death.then((reason) => {
      died = reason;
    });
    child.on("message", (message) => {
      port = listening.safeParse(message).data?.listening ?? port;
    });
    const outcome = await until(
      async () => died ?? ((await isReady(port)) ? "" : undefined),
      START_PATIENCE_MS,
      (waitedMs) => onWaiting(port === undefined ? "to listen" : "to be ready", waitedMs),
    );
    if (outcome === "" && port !== undefined) {
      this.#port = port;
      return;
    }
    await this.stop(0);
    const reason = outcome ?? `it was not ready within ${START_PATIENCE_MS / 1000} s`;
    throw await startFailure(this.title, reason, this.logFile);
  }

  death(): Promise<string> {
    return this.#death;
  }

  async stop(graceMs: number): Promise<void> {
    if (this.#process === undefined) return;
    if (graceMs > 0) {
      this.#process.kill("SIGTERM");
      if (await settledWithin(this.#death, graceMs)) return;
    }
    this.kill();
    await this.#death;
  }

  kill(): void {
    signalGroup(this.#process, "SIGKILL");
  }

  #spawn(): ChildProcess {
    const log = openSync(this.logFile, "a", 0o600);
    const child = fork(this.#options.entry, [], {
      execArgv: this.#options.nodeFlags,
      env: { ...this.#options.environment(), PORT: String(this.#port) },
      // A session of its own: Ctrl-C in the terminal is for us, who stop things in order.
      detached: true,
      stdio: ["ignore", log, log, "ipc"],
    });
    closeSync(log);
    this.#process = child;
    this.#death = whenGone(child);
    return child;
  }
}

/** A program listens before it is ready: migrations, graphs and the database come first. */
function isReady(port: number | undefined): Promise<boolean> {
  if (port === undefined) return Promise.resolve(false);
  return new Promise((resolve) => {
    const request = get(
      { host: "127.0.0.1", port, path: "/ready", agent: false, timeout: PROBE_MS },
      (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      },
    );
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(false));
  });
}
