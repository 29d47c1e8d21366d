import type { EngineEvent } from "@pulumi/pulumi/automation/index.js";
import { type ConsoleOutput, seconds } from "../runtime/embedded/console-output.ts";

/** Resources that take long enough to wonder about, and what to call them. */
const TITLES: Record<string, string> = {
  "kindlocal:index:Cluster": "kind cluster",
  "kindlocal:index:LoadedImages": "images in the node",
  "kindlocal:index:Sandbox": "gVisor on the node",
  "docker:index/image:Image": "image",
  "kubernetes:apps/v1:Deployment": "deployment",
  "kubernetes:apps/v1:StatefulSet": "database",
  "kubernetes:batch/v1:Job": "proof of the sandbox",
};
/** Operations that make or change nothing. */
const UNCHANGING = new Set(["same", "read", "refresh"]);
const REPORT_MS = 5_000;
/** Pulumi's last error, which tells nothing that the others have not. */
const SUMMARY = "update failed";

/** Turns the engine's events into a line a step, and says what a long step waits for. */
export class Progress {
  readonly #output: ConsoleOutput;
  readonly #started = new Map<string, number>();
  readonly #statuses = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  /** What went wrong, as the engine tells it. */
  readonly errors: string[] = [];

  constructor(output: ConsoleOutput) {
    this.#output = output;
    this.#timer = setInterval(() => this.#reportWaits(), REPORT_MS);
  }

  handle(event: EngineEvent): void {
    const { resourcePreEvent, resOutputsEvent, diagnosticEvent } = event;
    if (resourcePreEvent !== undefined) {
      const { urn, op } = resourcePreEvent.metadata;
      if (!UNCHANGING.has(op)) this.#started.set(urn, performance.now());
    }
    if (resOutputsEvent !== undefined) {
      const { urn, op } = resOutputsEvent.metadata;
      this.#finish(urn, op.startsWith("delete"));
    }
    if (diagnosticEvent !== undefined) {
      const { urn, severity, message } = diagnosticEvent;
      const text = spoken(plain(message));
      if (severity === "error" && text !== SUMMARY) this.errors.push(named(urn, text));
      else if (urn !== undefined && text !== "") this.#statuses.set(urn, text);
    }
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #finish(urn: string, gone: boolean): void {
    const started = this.#started.get(urn);
    this.#started.delete(urn);
    this.#statuses.delete(urn);
    const title = TITLES[typeOf(urn)];
    if (started === undefined || title === undefined) return;
    const took = seconds(performance.now() - started);
    this.#output.done(`${gone ? "removed " : ""}${title}: ${nameOf(urn)} (${took})`);
  }

  #reportWaits(): void {
    const waits = [...this.#started]
      .filter(([urn]) => TITLES[typeOf(urn)] !== undefined)
      .map(([urn, started]) => {
        const status = this.#statuses.get(urn);
        const reason = status === undefined ? "" : `, ${status.split("\n")[0]}`;
        return `${nameOf(urn)} (${seconds(performance.now() - started)}${reason})`;
      });
    if (waits.length > 0) this.#output.line(`… waiting for ${waits.join("; ")}`);
  }
}

function typeOf(urn: string): string {
  return urn.split("::")[2]?.split("$").at(-1) ?? "";
}

function nameOf(urn: string): string {
  return urn.split("::").at(-1) ?? urn;
}

function named(urn: string | undefined, text: string): string {
  return urn === undefined || urn === "" ? text : `${nameOf(urn)}: ${text}`;
}

/** Pulumi marks colours as `<{%…%}>`. */
function plain(message: string): string {
  return message.replace(/<\{%[^%]*%\}>/g, "").trim();
}

/** Of a user's mistake that ended the program: what it says, without where in our code it was found. */
function spoken(text: string): string {
  const [, mistake] = /unhandled exception:\s+UserError: ([\s\S]*?)\n\s+at /.exec(text) ?? [];
  return mistake ?? text;
}
