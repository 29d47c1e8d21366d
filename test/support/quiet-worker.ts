import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("../fixtures/gateway/quiet-worker.ts", import.meta.url));

/** A worker in a process of its own that can be stopped as if its machine had gone. */
export interface QuietWorker {
  url: URL;
  /** The kernel still takes connections and bytes for it, and nobody answers. */
  freeze(): void;
  stop(): Promise<void>;
}

/** Starts a worker that answers `/live`, begins an answer at `/runs/stream`, and else says nothing. */
export async function startQuietWorker(): Promise<QuietWorker> {
  const child = fork(PROGRAM);
  const [port] = await once(child, "message");
  return {
    url: new URL(`http://127.0.0.1:${port}`),
    freeze: () => void child.kill("SIGSTOP"),
    async stop() {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}
