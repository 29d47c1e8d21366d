/** A call whose upstream owes us bytes. */
export interface WatchedCall {
  /** Scheme, host and port of the upstream. */
  readonly origin: string;
  /** When the upstream last sent something, by `performance.now()`; first, when the call began. */
  readonly heardAt: number;
  /** True while the upstream is held up by a client that reads slowly: its silence is ours. */
  readonly paused: boolean;
  /** Ends the call as if the upstream's connection had broken. */
  giveUp(error: Error): void;
}

export interface SilenceOptions {
  /** How long an upstream may say nothing before it is asked whether it lives, in ms. */
  silentMs: number;
  /** How often it is asked, and how long each answer may take, in ms. */
  probeMs: number;
  /** How many questions in a row go unanswered before its silent calls are given up. */
  strikes: number;
}

/** Notices upstreams that are gone without a word. */
export interface SilenceWatch {
  add(call: WatchedCall): void;
  remove(call: WatchedCall): void;
  /** Looks at all calls once; done by itself every {@link SilenceOptions.probeMs}. */
  sweep(now?: number): Promise<void>;
  stop(): void;
}

interface Upstream {
  calls: Set<WatchedCall>;
  strikes: number;
  probing: boolean;
}

/**
 * A run may be silent for as long as it likes, so no call is given up for its silence alone: the
 * upstream is asked beside it, once for all its calls, and any answer is a sign of life.
 *
 * @param isAlive Asks an upstream on a connection of its own; must come to an end by itself.
 */
export function createSilenceWatch(
  { silentMs, probeMs, strikes }: SilenceOptions,
  isAlive: (origin: string) => Promise<boolean>,
): SilenceWatch {
  const upstreams = new Map<string, Upstream>();
  let timer: NodeJS.Timeout | undefined;

  async function check(origin: string, upstream: Upstream, now: number): Promise<void> {
    const silent = [...upstream.calls].filter(
      ({ heardAt, paused }) => !paused && now - heardAt >= silentMs,
    );
    if (silent.length === 0) {
      upstream.strikes = 0;
      return;
    }
    upstream.probing = true;
    upstream.strikes = (await isAlive(origin)) ? 0 : upstream.strikes + 1;
    upstream.probing = false;
    if (upstream.strikes < strikes) return;
    for (const call of silent) {
      // It may have ended or been heard of while the upstream was asked.
      const isSilent = !call.paused && now - call.heardAt >= silentMs;
      if (upstream.calls.has(call) && isSilent) {
        call.giveUp(new Error("The upstream fell silent and does not answer its probe."));
      }
    }
  }

  async function sweep(now = performance.now()): Promise<void> {
    const checks = [...upstreams]
      .filter(([, { probing }]) => !probing)
      .map(([origin, upstream]) => check(origin, upstream, now));
    await Promise.all(checks);
  }

  return {
    add(call) {
      let upstream = upstreams.get(call.origin);
      if (upstream === undefined) {
        upstream = { calls: new Set(), strikes: 0, probing: false };
        upstreams.set(call.origin, upstream);
      }
      upstream.calls.add(call);
      timer ??= setInterval(() => void sweep(), probeMs).unref();
    },
    remove(call) {
      const upstream = upstreams.get(call.origin);
      upstream?.calls.delete(call);
      if (upstream?.calls.size === 0) upstreams.delete(call.origin);
    },
    sweep,
    stop: () => clearInterval(timer),
  };
}
