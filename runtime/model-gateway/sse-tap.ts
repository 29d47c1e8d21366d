import type { AnswerMeter } from "./answer-meter.ts";

const LF = 0x0a;
const CR = 0x0d;
const NOTHING = Buffer.alloc(0);
/** A frame that grows beyond this is passed on in pieces: it can't be a usage report. */
const MAX_HELD_BYTES = 1024 * 1024;

/**
 * Cuts a stream of server-sent events at the ends of its frames and passes them on as the bytes
 * that came, but for the usage report that the client did not ask for. What it passes on always
 * ends with a whole frame, so that an error frame may follow.
 */
export class SseTap {
  readonly #meter: AnswerMeter;
  readonly #keepsUsage: boolean;
  #pending: Buffer = NOTHING;

  /** @param keepsUsage Whether the client asked for the usage report. */
  constructor(meter: AnswerMeter, keepsUsage: boolean) {
    this.#meter = meter;
    this.#keepsUsage = keepsUsage;
  }

  /** Takes what the provider sent and returns what goes to the client, mostly one piece. */
  push(chunk: Buffer): Buffer[] {
    const bytes = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    const passed: Buffer[] = [];
    let passFrom = 0;
    let frameStart = 0;
    for (let end = frameEnd(bytes, 0); end !== -1; end = frameEnd(bytes, end)) {
      const usageOnly = this.#meter.look(bytes.subarray(frameStart, end));
      if (usageOnly && !this.#keepsUsage) {
        if (frameStart > passFrom) passed.push(bytes.subarray(passFrom, frameStart));
        passFrom = end;
      }
      frameStart = end;
    }
    const passTo = bytes.length - frameStart > MAX_HELD_BYTES ? bytes.length : frameStart;
    if (passTo > passFrom) passed.push(bytes.subarray(passFrom, passTo));
    this.#pending = bytes.subarray(passTo);
    return passed;
  }

  /** The provider is done: what is left of a last frame that no blank line closed. */
  end(): Buffer[] {
    const left = this.#pending;
    this.#pending = NOTHING;
    if (left.length === 0) return [];
    const usageOnly = this.#meter.look(left);
    return usageOnly && !this.#keepsUsage ? [] : [left];
  }
}

/** The index after the blank line that ends the frame at `start`, or -1 while it is incomplete. */
function frameEnd(bytes: Buffer, start: number): number {
  for (let lineStart = start; ; ) {
    const lineFeed = bytes.indexOf(LF, lineStart);
    if (lineFeed === -1) return -1;
    const blank = lineFeed === lineStart || (lineFeed === lineStart + 1 && bytes[lineStart] === CR);
    if (blank) return lineFeed + 1;
    lineStart = lineFeed + 1;
  }
}
