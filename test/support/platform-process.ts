import { type ChildProcess, execFile, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { processStart } from "../../runtime/embedded/process-identity.ts";
import { until } from "../../runtime/embedded/wait.ts";

const run = promisify(execFile);
const INSTALL = resolve(import.meta.dirname, "../../install.sh");
const START_MS = 45_000;

/** What a finished command said. */
export interface Finished {
  code: number | null;
  output: string;
}

/** `./install.sh …` as a user runs it in a terminal of their own. */
export class PlatformProcess {
  readonly #process: ChildProcess;
  #output = "";
  readonly exited: Promise<number | null>;

  /**
   * @param command The installer of this checkout, or a command line for a shell.
   * @param environment What the terminal has set besides.
   */
  constructor(
    command: string[] | { shell: string; cwd: string },
    environment: Record<string, string> = {},
  ) {
    const options: SpawnOptions = {
      // Ctrl-C goes to a whole process group: ours must not be the tests'.
      detached: true,
      env: { ...withoutProviders(process.env), ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    };
    this.#process = Array.isArray(command)
      ? spawn(INSTALL, command, options)
      : spawn("bash", ["-c", command.shell], { ...options, cwd: command.cwd });
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      stream?.on("data", (chunk) => {
        this.#output += chunk;
      });
    }
    this.exited = once(this.#process, "close").then(([code]) => code as number | null);
  }

  get output(): string {
    return this.#output;
  }

  /** Comes back once the footer stands there. */
  async ready(): Promise<this> {
    const seen = await until(
      () => this.#output.includes("That is not a sandbox.") || this.#ended || undefined,
      START_MS,
    );
    if (seen !== true || this.#ended) throw new Error(`It did not start:\n${this.#output}`);
    return this;
  }

  /** The command lines of all that runs here, as any account of the machine may see them. */
  commandLines(): Promise<{ stdout: string }> {
    return run("ps", ["-eo", "args="]);
  }

  async finished(): Promise<Finished> {
    return { code: await this.exited, output: this.#output };
  }

  /** The text of a printed command that begins with `start`, over all its lines. */
  printedCommand(start: string): string {
    const at = this.#output.indexOf(`\n${start}`);
    if (at === -1) throw new Error(`No ${start} in:\n${this.#output}`);
    const end = this.#output.slice(at + 1).search(/[^\\]\n/);
    return this.#output.slice(at + 1, at + 1 + end + 1);
  }

  ctrlC(): void {
    process.kill(-(this.#process.pid ?? 0), "SIGINT");
  }

  ctrlCIfRunning(): void {
    if (!this.#ended) this.ctrlC();
  }

  killHard(): void {
    this.#process.kill("SIGKILL");
  }

  /** All processes below this one, and itself. */
  async family(): Promise<ProcessFamily> {
    const { stdout } = await run("ps", ["-eo", "pid=,ppid=,args="]);
    const rows = stdout.split("\n").map((line) => {
      const [, pid, parent, command = ""] = line.match(/^\s*(\d+)\s+(\d+)\s+(.*)$/) ?? [];
      return { pid: Number(pid), parent: Number(parent), command };
    });
    const members = rows.filter(({ pid }) => pid === this.#process.pid);
    for (const member of members) {
      members.push(...rows.filter(({ parent }) => parent === member.pid));
    }
    const known = await Promise.all(
      members.map(async (member) => ({ ...member, started: await processStart(member.pid) })),
    );
    return new ProcessFamily(known);
  }

  get #ended(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }
}

interface Member {
  pid: number;
  command: string;
  started: string | undefined;
}

/** Processes as they were at one moment. */
export class ProcessFamily {
  readonly #members: Member[];

  constructor(members: Member[]) {
    this.#members = members;
  }

  /** The one whose command line says this. */
  pidOf(part: string): number {
    const member = this.#members.find(({ command }) => command.includes(part));
    if (member === undefined) throw new Error(`No process of ${part}.`);
    return member.pid;
  }

  /** Waits until all are gone; what is left after `patienceMs`, for the test to show. */
  async leftAfter(patienceMs: number): Promise<string[]> {
    let left: string[] = [];
    await until(async () => {
      const alive = await Promise.all(
        this.#members.map(async ({ pid, started }) => {
          const now = await processStart(pid);
          return now !== undefined && now === started;
        }),
      );
      left = this.#members.filter((_, index) => alive[index]).map(({ command }) => command);
      return left.length === 0 ? true : undefined;
    }, patienceMs);
    return left;
  }
}

/** Runs a command line as a user pastes it. */
export async function paste(commandLine: string): Promise<string> {
  const { stdout } = await run("bash", ["-c", commandLine]);
  return stdout;
}

function withoutProviders(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const provider = /^(?:OPENAI|OLLAMA|ANTHROPIC|GEMINI|VLLM|DEMO|DEFAULT_LLM)_/;
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !provider.test(name)));
}
