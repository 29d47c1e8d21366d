import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { tooLarge } from "../../common/errors.ts";

/**
 * A client's body on its way upstream: counted, never collected.
 *
 * It stands between undici and the client's request because undici destroys a body that it could
 * not send, and destroying the request itself would cut the connection that the error answer needs.
 * Nothing is taken from the client before the first read, so an untouched body can be sent again.
 *
 * Fails with a 413 once more than `limitBytes` came.
 */
export class RequestBody extends Readable {
  readonly #source: IncomingMessage;
  readonly #limitBytes: number;
  #receivedBytes = 0;
  #started = false;

  constructor(source: IncomingMessage, limitBytes: number) {
    super();
    this.#source = source;
    this.#limitBytes = limitBytes;
  }

  /** True once bytes may have left the client's request. */
  get started(): boolean {
    return this.#started;
  }

  override _read(): void {
    if (!this.#started) {
      this.#started = true;
      this.#source.on("data", this.#onData).on("end", this.#onEnd).on("error", this.#onError);
      this.#source.on("close", this.#onClose);
      if (this.#source.destroyed) this.#onClose();
    }
    this.#source.resume();
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    if (this.#started) {
      this.#source.off("data", this.#onData).off("end", this.#onEnd).off("error", this.#onError);
      this.#source.off("close", this.#onClose);
      this.#source.pause();
    }
    callback(error);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#receivedBytes += chunk.length;
    if (this.#receivedBytes > this.#limitBytes) this.destroy(tooLarge(this.#limitBytes));
    else if (!this.push(chunk)) this.#source.pause();
  };

  readonly #onEnd = (): void => {
    this.push(null);
  };

  readonly #onError = (error: Error): void => {
    this.destroy(error);
  };

  readonly #onClose = (): void => {
    if (!this.#source.readableEnded) this.destroy(new Error("the client went away"));
  };
}

/** True where the request announces a body, by its length or in chunks. */
export function hasBody({ headers }: IncomingMessage): boolean {
  if (headers["transfer-encoding"] !== undefined) return true;
  const length = headers["content-length"];
  return length !== undefined && length !== "0";
}

/**
 * A body that has come whole with its headers, as small ones do: it is passed on as it is, which
 * costs a tenth less than a stream. Undefined for any other.
 */
export function arrivedBody(incoming: IncomingMessage): Buffer | undefined {
  const length = Number(incoming.headers["content-length"] ?? 0);
  if (length === 0 || incoming.readableLength !== length) return undefined;
  const body: unknown = incoming.read();
  if (!Buffer.isBuffer(body)) return undefined;
  // Lets the request end, so that its connection is free for the next.
  incoming.resume();
  return body;
}
