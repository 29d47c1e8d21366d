import { type ChildProcess, execFile, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Client } from "@langchain/langgraph-sdk";
import {
  ASSERTION_HEADER,
  createAssertionSigner,
  generateAssertionKeys,
} from "../../runtime/common/identity.ts";
import { eventually } from "./eventually.ts";
import type { TestDatabase } from "./postgres.ts";

export const WORKER_ENTRY = resolve(import.meta.dirname, "../../runtime/worker/main.ts");
export const WORKER_GRAPHS = resolve(import.meta.dirname, "../fixtures/worker/langgraph.json");
const START_MS = 20_000;

const keys = generateAssertionKeys();
const signer = await createAssertionSigner(keys.privateKey);

/** The key that the gateway of these tests signs with. */
export const ASSERTION_PRIVATE_KEY = keys.privateKey;
/** What a worker checks it by. */
export const ASSERTION_PUBLIC_KEY = keys.publicKey;
export const TENANT = "acme";

/** Who calls, and which graph. */
export interface Caller {
  graphId: string;
  tenant?: string;
}

/** What the gateway adds to a caller's request. */
export async function assertionHeaders(caller: Caller): Promise<Record<string, string>> {
  const identity = { tenant: caller.tenant ?? TENANT, subject: "tester" };
  return { [ASSERTION_HEADER]: await signer.sign(identity, caller.graphId) };
}

/** A worker program in a process of its own. */
export class TestWorker {
  readonly #database: TestDatabase;
  readonly #environment: Record<string, string>;
  #process: ChildProcess | undefined;
  #port = 0;
  /** Its log, over all starts. */
  log = "";

  constructor(database: TestDatabase, environment: Record<string, string>) {
    this.#database = database;
    this.#environment = environment;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get pid(): number {
    if (this.#process?.pid === undefined) throw new Error("The worker does not run.");
    return this.#process.pid;
  }

  get isRunning(): boolean {
    const child = this.#process;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** Starts it; after the first time on the same port as before. */
  async start(): Promise<void> {
    const child = fork(WORKER_ENTRY, {
      env: {
        PATH: process.env.PATH,
        PORT: String(this.#port),
        BIND_ADDRESSES: "127.0.0.1",
        DATABASE_URL: this.#database.url("worker"),
        LANGGRAPH_CONFIG: WORKER_GRAPHS,
        ASSERTION_PUBLIC_KEY: keys.publicKey,
        ...this.#environment,
      },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.log += text;
      });
    }
    this.#process = child;
    const [message] = await Promise.race([
      once(child, "message", { signal: AbortSignal.timeout(START_MS) }),
      once(child, "exit").then(([code]) => {
        throw new Error(`The worker ended with ${code} instead of starting:\n${this.log}`);
      }),
    ]);
    this.#port = (message as { listening: number }).listening;
  }

  /** SIGTERM, as Kubernetes does it. Resolves with the exit code. */
  async stop(): Promise<number | null> {
    return this.#end("SIGTERM");
  }

  /** The machine is gone. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** It hangs: keeps its connections and does nothing. */
  pause(): void {
    process.kill(this.pid, "SIGSTOP");
  }

  resume(): void {
    process.kill(this.pid, "SIGCONT");
  }

  /** Resident memory in MiB. */
  async memoryMiB(): Promise<number> {
    const { stdout } = await promisify(execFile)("ps", ["-o", "rss=", "-p", String(this.pid)]);
    return Number(stdout) / 1024;
  }

  /** The SDK's client, as the gateway would pass it on for this caller. */
  async client(caller: Caller): Promise<Client> {
    return new Client({
      apiUrl: this.url,
      apiKey: null,
      defaultHeaders: await assertionHeaders(caller),
      // The tests want to see every failure.
      callerOptions: { maxRetries: 0, maxConcurrency: 100 },
    });
  }

  /** The SDK's client as its users have it: it tries again by itself. */
  async patientClient(caller: Caller): Promise<Client> {
    return new Client({
      apiUrl: this.url,
      apiKey: null,
      defaultHeaders: await assertionHeaders(caller),
    });
  }

  /** A plain call; `body` is sent as JSON, a text as it is. */
  async call(
    caller: Caller | undefined,
    method: string,
    path: string,
    body?: unknown,
    init: { headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      ...init,
      method,
      headers: {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(caller && (await assertionHeaders(caller))),
        ...init.headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#process;
    if (child === undefined || !this.isRunning) return null;
    const exited = once(child, "exit");
    child.kill(signal);
    const [code] = await exited;
    return code as number | null;
  }
}

/** The body of an answer. */
// biome-ignore lint/suspicious/noExplicitAny: every endpoint has its own shape.
export async function jsonOf(answer: Response | Promise<Response>): Promise<any> {
  return (await answer).json();
}

/** @param environment Beside what every worker needs, e.g. `LEASE_MS`. */
export async function startWorker(
  database: TestDatabase,
  environment: Record<string, string> = {},
): Promise<TestWorker> {
  const worker = new TestWorker(database, environment);
  await worker.start();
  return worker;
}

/** The files by which the fixture graphs and a test talk: a journal, and gates to open. */
export class Journal {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async create(): Promise<Journal> {
    return new Journal(await mkdtemp(join(tmpdir(), "platform-journal-")));
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  /** The lines that graphs have written to a journal so far. */
  async lines(name: string): Promise<string[]> {
    try {
      return (await readFile(this.path(name), "utf8")).split("\n").slice(0, -1);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
  }

  /** Waits until a graph has written a line. */
  async has(name: string, line: string): Promise<void> {
    await eventually(`${line} is in the journal`, async () =>
      (await this.lines(name)).includes(line),
    );
  }

  /** Lets the graphs that wait at this gate go on. */
  async open(gate: string): Promise<void> {
    await writeFile(this.path(gate), "");
  }

  /** Lets graphs wait at this gate again. */
  async shut(gate: string): Promise<void> {
    await rm(this.path(gate));
  }

  async remove(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}
