import type { ServerResponse } from "node:http";

/** Why a call to a provider was given up. */
export type GivenUp = "client-gone" | "deadline";

/** Ends the work for a call whose client has left, or that got no byte before its deadline. */
export interface CallLife {
  /** Aborted with a {@link GivenUp} as its reason. */
  readonly signal: AbortSignal;
  givenUp(): GivenUp | undefined;
  /** What is left until the deadline, in ms. */
  remainingMs(): number;
  /** The first byte is on its way to the client: from here on there is no deadline. */
  answering(): void;
  /** Stops watching. */
  end(): void;
}

/** @param deadlineMs For all tries together, until the first byte goes to the client. */
export function watchCall(outgoing: ServerResponse, deadlineMs: number): CallLife {
  const abort = new AbortController();
  const deadline = performance.now() + deadlineMs;
  const giveUp = (reason: GivenUp) => abort.abort(reason);
  const onClose = () => {
    if (!outgoing.writableFinished) giveUp("client-gone");
  };
  const timer = setTimeout(giveUp, deadlineMs, "deadline");
  outgoing.once("close", onClose);
  if (outgoing.destroyed) onClose();
  return {
    signal: abort.signal,
    givenUp: () => (abort.signal.aborted ? (abort.signal.reason as GivenUp) : undefined),
    remainingMs: () => deadline - performance.now(),
    answering: () => clearTimeout(timer),
    end() {
      clearTimeout(timer);
      outgoing.off("close", onClose);
    },
  };
}
