import type { WriteStream } from "node:tty";
import { stripVTControlCharacters } from "node:util";
import type { OnWaiting } from "./wait.ts";

/** How often a wait is reported where lines can't be rewritten. */
const REPORT_MS = 5_000;
/** On a terminal a wait is shown once it is long enough to wonder about. */
const SHOW_AFTER_MS = 500;

/** Standard output, or what stands for it in a test. */
export type Output = Pick<WriteStream, "write"> & { isTTY?: boolean };

/** Tells the person at the keyboard what goes on. */
export class ConsoleOutput {
  readonly #output: Output;
  readonly #colours: boolean;
  /** A line that stands there until the next one overwrites it. */
  #transient = "";

  constructor(output: Output, environment: NodeJS.ProcessEnv) {
    this.#output = output;
    this.#colours = output.isTTY === true && !environment.NO_COLOR && environment.TERM !== "dumb";
  }

  /** A plain line, or several. */
  line(text = ""): void {
    this.#clear();
    this.#output.write(`${text}\n`);
  }

  done(text: string): void {
    this.line(`${this.colour(32, "✓")} ${text}`);
  }

  warn(text: string): void {
    this.line(`${this.colour(33, "!")} ${text}`);
  }

  /** @param code An SGR colour or style, e.g. 1 for bold. */
  colour(code: number, text: string): string {
    return this.#colours ? `\u001b[${code}m${text}\u001b[0m` : text;
  }

  /**
   * Shows the start of a service while it runs, and how long it took.
   *
   * @param work Gives back the service, by the title that it has then.
   */
  async step<T extends { title: string }>(
    title: string,
    work: (onWaiting: OnWaiting) => Promise<T>,
  ): Promise<T> {
    const began = performance.now();
    let reports = 0;
    const value = await work((what, waitedMs) => {
      const text = `${title}: waiting ${what} (${seconds(waitedMs)})`;
      if (this.#output.isTTY === true) {
        if (waitedMs >= SHOW_AFTER_MS) this.#overwrite(text);
      } else if (waitedMs >= (reports + 1) * REPORT_MS) {
        reports += 1;
        this.line(`… ${text}`);
      }
    });
    this.done(`${value.title} ready (${seconds(performance.now() - began)})`);
    return value;
  }

  #overwrite(text: string): void {
    if (text === this.#transient) return;
    this.#clear();
    this.#output.write(`… ${stripVTControlCharacters(text)}`);
    this.#transient = text;
  }

  #clear(): void {
    if (this.#transient !== "") this.#output.write("\r\u001b[2K");
    this.#transient = "";
  }
}

/** e.g. `0.4 s` */
export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
