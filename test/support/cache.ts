import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { access, constants, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { eventually } from "./eventually.ts";

const SERVERS = ["valkey-server", "redis-server"];
const HOST = "127.0.0.1";

/** A Valkey or Redis of one test file, that keeps nothing on disk. Its default user is off. */
export interface TestCache {
  /** As a user who may do everything. */
  adminUrl: string;
  /** Ends the server at once; what it held is gone. */
  kill(): Promise<void>;
  /** It hangs: keeps its connections and answers nothing. */
  pause(): void;
  resume(): void;
  /** Starts it again on the same port, with no user but the administrator. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** @throws where neither server is on the PATH. */
export async function startCache(): Promise<TestCache> {
  const program = await findServer();
  const directory = await mkdtemp(join(tmpdir(), "platform-cache-"));
  const file = join(directory, "cache.conf");
  const port = await freePort();
  const password = randomBytes(12).toString("hex");
  await writeFile(
    file,
    [
      `bind ${HOST}`,
      `port ${port}`,
      `dir ${directory}`,
      'save ""',
      "appendonly no",
      "user default off",
      `user admin on >${password} ~* &* +@all`,
    ].join("\n"),
  );
  let server: ChildProcess | undefined;

  async function start(): Promise<void> {
    server = spawn(program, [file], { stdio: "ignore" });
    await eventually(`${program} answers`, () => answers(port));
  }

  async function kill(): Promise<void> {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const gone = once(server, "exit");
    server.kill("SIGKILL");
    await gone;
  }

  await start();
  return {
    adminUrl: `redis://admin:${password}@${HOST}:${port}`,
    start,
    kill,
    pause: () => void server?.kill("SIGSTOP"),
    resume: () => void server?.kill("SIGCONT"),
    async stop() {
      await kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function findServer(): Promise<string> {
  for (const name of SERVERS) {
    for (const directory of (process.env.PATH ?? "").split(delimiter)) {
      const file = join(directory, name);
      if (
        await access(file, constants.X_OK).then(
          () => true,
          () => false,
        )
      )
        return file;
    }
  }
  throw new Error(
    `These tests need one of ${SERVERS.join(", ")} on the PATH: apt-get install valkey-server or redis-server.`,
  );
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, HOST);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
