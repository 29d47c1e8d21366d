import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { labSettings, requireTools } from "./cluster-lab.ts";

const execute = promisify(execFile);
const CHECKOUT = resolve(import.meta.dirname, "../..");
const MEBIBYTE = 1024 ** 2;

export const CLUSTER_NAME = "platform-test";
export const NODE = `${CLUSTER_NAME}-control-plane`;
/** A provider key that must turn up nowhere but in the model gateway's Secret. */
export const CANARY = "sk-canary-4f1d0c7be2a94b55";

/** What a finished installer said, and how long it took. */
export interface Finished {
  code: number | null;
  output: string;
  seconds: number;
}

/** A copy of the checkout, installed on a kind cluster as a user would do it. */
export class Installation {
  readonly directory: string;
  readonly port: number;
  /** Docker's networks before. */
  readonly networksBefore: string[];
  readonly #settings: string;
  #installed: Promise<Finished> | undefined;

  private constructor(directory: string, port: number, networksBefore: string[], settings: string) {
    this.directory = directory;
    this.port = port;
    this.networksBefore = networksBefore;
    this.#settings = settings;
  }

  /** Copies what git knows of the checkout into a folder of its own. */
  static async prepare(): Promise<Installation> {
    await requireTools();
    const directory = await realpath(await mkdtemp(join(tmpdir(), "platform-cluster-")));
    const copy = join(directory, "checkout");
    const files = await git(CHECKOUT, "ls-files", "-z");
    for (const file of files.split("\0").filter(Boolean)) {
      await cp(join(CHECKOUT, file), join(copy, file), { preserveTimestamps: true });
    }
    await symlink(await realpath(join(CHECKOUT, "node_modules")), join(copy, "node_modules"));
    await git(copy, "init", "--quiet");
    await git(copy, "add", "--all");
    await git(copy, "commit", "--quiet", "--message", "As it was");
    // A provider with a key comes before the demo one, which is what these tests talk to.
    const settings = { ...labSettings(process.env), "platform:defaultModel": "demo/echo" };
    const file = join(directory, "settings.json");
    await writeFile(file, JSON.stringify(settings, null, 2));
    return new Installation(copy, await freePort(), await dockerNetworks(), file);
  }

  get url(): string {
    return `http://localhost:${this.port}`;
  }

  /** The first installation; later calls give its answer again. */
  installed(): Promise<Finished> {
    this.#installed ??= this.install();
    return this.#installed;
  }

  /** Runs `./install.sh --demo` to its end. */
  async install(): Promise<Finished> {
    return await this.#finished(this.startInstall());
  }

  async uninstall(): Promise<Finished> {
    return await this.#finished(this.#start(["--uninstall"]));
  }

  /**
   * Starts `./install.sh --demo` in a process group of its own, for Ctrl-C.
   *
   * @param args More of them; they come before the usual ones.
   */
  startInstall(...args: string[]): ChildProcess {
    return this.#start([
      ...["--demo", "--cluster-name", CLUSTER_NAME, "--port", String(this.port)],
      ...["--config", this.#settings, ...args],
    ]);
  }

  /** Pulumi as a user calls it by hand in the checkout, in a shell that knows of no provider. */
  async pulumi(...args: string[]): Promise<string> {
    const { OPENAI_API_KEY: _key, OPENAI_BASE_URL: _url, ...shell } = environment();
    const { stdout } = await execute("npx", ["pulumi", ...args], {
      cwd: this.directory,
      env: {
        ...shell,
        PULUMI_BACKEND_URL: `file://${join(this.directory, ".platform/state")}`,
        PULUMI_CONFIG_PASSPHRASE_FILE: join(this.directory, ".platform/passphrase"),
      },
      maxBuffer: 64 * MEBIBYTE,
    });
    return stdout;
  }

  async kubectl(...args: string[]): Promise<string> {
    const kubeconfig = join(this.directory, `.platform/kubeconfig-${CLUSTER_NAME}`);
    const { stdout } = await execute("kubectl", ["--kubeconfig", kubeconfig, ...args], {
      maxBuffer: 64 * MEBIBYTE,
    });
    return stdout;
  }

  /** What differs from the checkout as it was, by git's reckoning: added, changed and lost files. */
  async differences(): Promise<string> {
    return await git(this.directory, "status", "--porcelain", "--untracked-files=all");
  }

  /** Removes the platform, also where a test broke off, and the copy. */
  async dispose(): Promise<void> {
    const { code, output } = await this.uninstall();
    if (code !== 0) throw new Error(`--uninstall failed:\n${output}`);
    await rm(dirname(this.directory), { recursive: true, force: true });
  }

  #start(args: string[]): ChildProcess {
    return spawn("./install.sh", args, {
      cwd: this.directory,
      detached: true,
      env: environment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  async #finished(child: ChildProcess): Promise<Finished> {
    const began = performance.now();
    return { ...(await outcome(child)), seconds: (performance.now() - began) / 1_000 };
  }
}

/** Names of Docker's networks. */
export async function dockerNetworks(): Promise<string[]> {
  const { stdout } = await execute("docker", ["network", "ls", "--format", "{{.Name}}"]);
  return stdout.split("\n").filter(Boolean);
}

async function git(directory: string, ...args: string[]): Promise<string> {
  const author = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
  const { stdout } = await execute("git", ["-C", directory, ...author, ...args]);
  return stdout;
}

/** What a process says until its end, and its exit code. */
export async function outcome(
  child: ChildProcess,
): Promise<{ code: number | null; output: string }> {
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const [code] = await once(child, "close");
  return { code, output };
}

/** The demo provider, and beside it one with a key that is watched and a host that answers nobody. */
function environment(): NodeJS.ProcessEnv {
  const provider =
    /^(?:OPENAI|OLLAMA|ANTHROPIC|GEMINI|VLLM|DEMO|DEFAULT_LLM|PULUMI_BACKEND|PULUMI_CONFIG)_/;
  const ours = Object.entries(process.env).filter(([name]) => !provider.test(name));
  return {
    ...Object.fromEntries(ours),
    OPENAI_API_KEY: CANARY,
    OPENAI_BASE_URL: "http://203.0.113.1/v1",
  };
}

let prepared: Promise<Installation> | undefined;

/** The one installation that all cluster tests share; the first caller waits for it. */
export async function theInstallation(): Promise<Installation> {
  prepared ??= Installation.prepare();
  const installation = await prepared;
  const { code, output } = await installation.installed();
  if (code !== 0) throw new Error(`./install.sh ended with ${code}:\n${output}`);
  return installation;
}

/** For the last test's end, whatever came before. */
export async function disposeInstallation(): Promise<void> {
  const installation = await prepared;
  prepared = undefined;
  await installation?.dispose();
}
