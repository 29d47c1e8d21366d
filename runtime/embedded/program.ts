import { type ChildProcess, fork } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { z } from "zod";
import { startFailure } from "./logs.ts";
import { probe } from "./probe.ts";
import { type Service, settledWithin, signalGroup, whenGone } from "./service.ts";
import { fallsSilent, type Patience } from "./silence.ts";
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
  /** When it is ended because it does not answer `/live` any more; never, where this is left out. */
  patience?: Patience;
}

/** One of the platform's programs as a child process, told to leave when we are gone. */
export class Program implements Service {
  readonly title: string;
  readonly logFile: string;
  readonly #options: ProgramOptions;
  #port: number;
  #process: ChildProcess | undefined;
  #death: Promise<string> = new Promise(() => {});
  /** Ends the watch over the process that runs now. */
  #watch = new AbortController();

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
      // Told once; an agent's code may send what it likes after that.
      if (port !== undefined) return;
      port = listening.safeParse(message).data?.listening;
      if (port !== undefined) void this.#endWhenSilent(port);
    });
    const outcome = await until(
      // It listens before it is ready: migrations, graphs and the database come first.
      async () =>
        died ?? (port !== undefined && (await probe(port, "/ready", PROBE_MS)) ? "" : undefined),
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
    this.#watch.abort();
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

  async #endWhenSilent(port: number): Promise<void> {
    const { patience } = this.#options;
    if (patience === undefined) return;
    const watch = this.#watch;
    const answers = () => probe(port, "/live", patience.everyMs);
    if (!(await fallsSilent(answers, patience, watch.signal))) return;
    watch.abort(new Silent(patience));
    this.kill();
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
    const watch = new AbortController();
    this.#watch = watch;
    this.#death = whenGone(child).then((how) => {
      const reason = watch.signal.reason;
      watch.abort();
      return reason instanceof Silent ? reason.message : how;
    });
    return child;
  }
}

/** Why a process was ended that still ran. */
class Silent extends Error {
  constructor({ everyMs, probes }: Patience) {
    super(`it did not answer for ${(everyMs * probes) / 1_000} s and was ended`);
  }
}
