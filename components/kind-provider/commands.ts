import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { UserError } from "../../runtime/common/errors.ts";

/** A tool that ended with an error, with what it said. */
export class CommandFailed extends Error {
  readonly stderr: string;

  constructor(command: string, args: string[], code: number | null, stderr: string) {
    super(`${command} ${args.slice(0, 3).join(" ")} failed (${code}): ${stderr.trim()}`);
    this.name = "CommandFailed";
    this.stderr = stderr;
  }
}

/** A tool that is not installed. */
export class CommandMissing extends UserError {
  constructor(command: string) {
    super(
      "tool_missing",
      `${command} is not installed or not on the PATH.`,
      WHERE[command] ?? "Install it first.",
    );
    this.name = "CommandMissing";
  }
}

const WHERE: Record<string, string> = {
  docker: "Get Docker from https://docs.docker.com/get-docker/ and start it.",
  kind: "Get kind from https://kind.sigs.k8s.io/docs/user/quick-start/#installation.",
  kubectl: "Get kubectl from https://kubernetes.io/docs/tasks/tools/.",
};

/**
 * Runs a tool and gives back its standard output.
 *
 * @throws CommandMissing or CommandFailed
 */
export async function run(
  command: string,
  args: string[],
  input?: string | Readable,
): Promise<string> {
  // In a process group of its own: a terminal's Ctrl-C must not break it off half-way.
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"], detached: true });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    stderr += text;
  });
  // A tool that ends early closes its input; what matters is why it ended.
  child.stdin.on("error", () => {});
  if (input === undefined || typeof input === "string") child.stdin.end(input);
  else input.pipe(child.stdin);
  try {
    const [code] = await once(child, "close");
    if (code === 0) return stdout;
    throw new CommandFailed(command, args, code, stderr);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") throw new CommandMissing(command);
    throw error;
  }
}

/** Pipes one tool's output into another, as a shell's `a | b`. */
export async function pipe(from: [string, string[]], to: [string, string[]]): Promise<void> {
  await output(...from, (stdout) => run(...to, stdout));
}

/**
 * Runs a tool and hands its output to `read` as it comes.
 *
 * @throws CommandFailed, or whatever `read` throws.
 */
export async function output<T>(
  command: string,
  args: string[],
  read: (stdout: Readable) => Promise<T>,
): Promise<T> {
  const source = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
  let stderr = "";
  source.stderr.setEncoding("utf8").on("data", (text) => {
    stderr += text;
  });
  const ended = once(source, "close");
  try {
    const result = await read(source.stdout);
    const [code] = await ended;
    if (code !== 0) throw new CommandFailed(command, args, code, stderr);
    return result;
  } catch (error) {
    const hadFailed = source.exitCode !== null && source.exitCode !== 0;
    source.kill();
    const [code] = await ended;
    if (error instanceof CommandFailed || !hadFailed) throw error;
    // What was read broke off because the tool failed: that is the reason.
    throw new CommandFailed(command, args, code, stderr);
  }
}
