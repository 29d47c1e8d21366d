import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCli } from "../../cli/cli.ts";
import { commands } from "../../cli/commands/commands.ts";
import { createEnvironmentStore } from "../../cli/environments.ts";

/** What a command line did. */
export interface Outcome {
  code: number;
  output: string;
  errors: string;
}

/** agentctl with a home of its own. */
export class CliBench {
  readonly configHome: string;
  readonly #interruption = new AbortController();
  /** `AGENTCTL_TOKEN`. */
  token: string | undefined;
  /** What is piped in. */
  input = "";
  /** What has been printed so far by the command that runs. */
  output = "";

  private constructor(configHome: string) {
    this.configHome = configHome;
  }

  static async make(): Promise<CliBench> {
    return new CliBench(await mkdtemp(join(tmpdir(), "agentctl-")));
  }

  get file(): string {
    return join(this.configHome, "agentctl", "environments.json");
  }

  async run(...words: string[]): Promise<Outcome> {
    this.output = "";
    let errors = "";
    const code = await runCli(words, {
      commands,
      version: "2.3.1",
      context: {
        environments: createEnvironmentStore(this.configHome),
        token: this.token,
        print: (text) => {
          this.output += text;
        },
        readInput: async () => this.input,
        signal: this.#interruption.signal,
      },
      complain: (text) => {
        errors += text;
      },
    });
    return { code, output: this.output, errors };
  }

  /** The environment that most tests work in. */
  async addEnvironment(name: string, ...options: string[]): Promise<Outcome> {
    return this.run("env", "add", name, ...CLUSTER, ...options);
  }

  ctrlC(): void {
    this.#interruption.abort();
  }

  async remove(): Promise<void> {
    await rm(this.configHome, { recursive: true });
  }
}

export const CLUSTER = ["--kube-context", "kind-platform", "--namespace", "default"];

/** A call that reached the stand-in. */
export interface Call {
  method: string | undefined;
  path: string | undefined;
  headers: IncomingMessage["headers"];
  body: Record<string, unknown>;
}

/** A front door that answers as the test says. */
export interface StandInFrontDoor {
  /** On loopback. */
  url: string;
  calls: Call[];
  answer: (response: ServerResponse, call: Call) => void;
  close(): Promise<void>;
}

export async function startFrontDoor(): Promise<StandInFrontDoor> {
  const door: StandInFrontDoor = {
    url: "",
    calls: [],
    answer: (response) => response.end(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const { method, url: path, headers } = request;
    const call: Call = { method, path, headers, body: text === "" ? {} : JSON.parse(text) };
    door.calls.push(call);
    door.answer(response, call);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  door.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return door;
}

/** An answer in JSON, as `wait` gives it: with heartbeats before it. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(`\n\n${JSON.stringify(body)}`);
}

/** The head of an event stream. */
export function openStream(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  sendEvent(response, "metadata", { run_id: "r", attempt: 1 });
}

export function sendEvent(response: ServerResponse, event: string, data: unknown): void {
  response.write(`: heartbeat\n\nid: 1\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** A piece of an assistant's message, as `messages-tuple` has it. */
export function sendText(response: ServerResponse, text: string, id = "m1"): void {
  sendEvent(response, "messages", [{ type: "AIMessageChunk", id, content: text }, {}]);
}
