import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { createBackoff } from "../common/kubernetes/backoff.ts";
import type { Logger } from "../common/logging.ts";
import { describe } from "./failure.ts";

export interface LeaderOptions {
  /** A role that may lock the table `provisioner.leader`. */
  databaseUrl: string;
  logger: Logger;
  /** What only one replica may do. It has to end soon after its signal. */
  work: (signal: AbortSignal) => Promise<void>;
  /** How often the leader makes sure that it still is, in ms. */
  heartbeatMs?: number;
}

/** `apart`: it neither leads nor waits for its turn, since something failed. */
export type Standing = "apart" | "standby" | "leader";

/** One of the replicas that may lead. */
export interface Candidate {
  readonly standing: Standing;
  /** Ends the work if there is any, and lets another replica lead. */
  stop(): Promise<void>;
}

const HEARTBEAT_MS = 2_000;
const ANSWER_MS = 5_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 2_000;
/** How soon the server notices that a replica is gone without a word, in seconds. */
const KEEPALIVE = "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3";
const OPTIONS = `${KEEPALIVE} -c client_connection_check_interval=2s -c idle_in_transaction_session_timeout=0`;

/**
 * Waits until this replica holds the lock of the leader, does the work, and starts over when the
 * connection that holds the lock is lost. The lock is one of a table: no agent may touch that, while
 * each could take an advisory lock. A transaction that has only locked holds back no vacuum.
 */
export function standForLeader(options: LeaderOptions): Candidate {
  const { logger } = options;
  const stopping = new AbortController();
  let standing: Standing = "apart";

  async function stand(): Promise<void> {
    const backoff = createBackoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    while (!stopping.signal.aborted) {
      const started = performance.now();
      try {
        await term();
      } catch (error) {
        if (stopping.signal.aborted) return;
        if (performance.now() - started > LONGEST_PAUSE_MS) backoff.reset();
        logger.warn({ error: describe(error) }, "not leading");
        await delay(backoff.next(), undefined, { signal: stopping.signal }).catch(() => {});
      }
    }
  }

  async function term(): Promise<void> {
    const ending = new AbortController();
    const signal = AbortSignal.any([stopping.signal, ending.signal]);
    const client = new pg.Client({
      connectionString: options.databaseUrl,
      application_name: "provisioner-leader",
      connectionTimeoutMillis: ANSWER_MS,
      keepAlive: true,
      options: OPTIONS,
    });
    const lost = new Promise<never>((_, reject) => {
      client.on("error", reject);
      client.on("end", () => reject(new Error("the connection ended")));
      const stop = () => reject(new Error("the program stops"));
      stopping.signal.addEventListener("abort", stop, { signal: ending.signal });
    });
    // Raced against below; on its own it is nobody's failure.
    lost.catch(() => {});
    let working: Promise<void> | undefined;
    try {
      await Promise.race([begin(client), lost]);
      standing = "standby";
      await Promise.race([client.query("LOCK TABLE provisioner.leader IN EXCLUSIVE MODE"), lost]);
      standing = "leader";
      logger.info("leading");
      working = options.work(signal);
      await Promise.race([working, heartbeat(client, signal), lost]);
    } finally {
      standing = "apart";
      ending.abort();
      // The next leader begins when the lock is free, and this one must be done by then.
      await working?.catch(() => {});
      await client.end().catch(() => {});
    }
  }

  async function heartbeat(client: pg.Client, signal: AbortSignal): Promise<void> {
    for (;;) {
      await delay(options.heartbeatMs ?? HEARTBEAT_MS, undefined, { signal });
      await answered(client);
    }
  }

  const candidacy = stand();
  return {
    get standing() {
      return standing;
    },
    async stop() {
      stopping.abort();
      await candidacy;
    },
  };
}

async function begin(client: pg.Client): Promise<void> {
  await client.connect();
  await client.query("BEGIN");
}

async function answered(client: pg.Client): Promise<void> {
  const timer = new AbortController();
  const late = delay(ANSWER_MS, undefined, { signal: timer.signal }).then(() => {
    throw new Error("the database does not answer");
  });
  try {
    await Promise.race([client.query("SELECT 1"), late]);
  } finally {
    timer.abort();
    late.catch(() => {});
  }
}
