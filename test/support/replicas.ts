import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { eventually } from "./eventually.ts";
import { startTestPostgres, type TestPostgres } from "./postgres.ts";
import { REDIS_PREFIX, TestRedis } from "./redis.ts";
import { type Caller, Journal, jsonOf, startWorker, type TestWorker } from "./worker.ts";
import { type SentEvent, sentEvents } from "./worker-events.ts";

/** Longer than any test: what happens happened by a signal, or by the lost lease of a test. */
const NEVER_MS = "600000";

/** Two workers of one agent over one PostgreSQL and one Redis. */
export interface Replicas {
  postgres: TestPostgres;
  redis: TestRedis;
  a: TestWorker;
  b: TestWorker;
  journal: Journal;
  stop(): Promise<void>;
}

/** @param environment Of both workers, beside the usual. */
export async function startReplicas(environment: Record<string, string> = {}): Promise<Replicas> {
  const [postgres, redis, journal] = await Promise.all([
    startTestPostgres(),
    TestRedis.create(),
    Journal.create(),
  ]);
  const variables = {
    REDIS_URL: redis.url,
    REDIS_PREFIX,
    HEARTBEAT_MS: NEVER_MS,
    REAPER_MS: NEVER_MS,
    LEASE_MS: NEVER_MS,
    ...environment,
  };
  const a = await startWorker(postgres, variables);
  const b = await startWorker(postgres, variables);
  return {
    postgres,
    redis,
    a,
    b,
    journal,
    async stop() {
      await Promise.all([a.kill(), b.kill()]);
      await Promise.all([postgres.stop(), redis.stop(), journal.remove()]);
    },
  };
}

/** A run of the graph `events`, under way. */
export interface EventsRun {
  caller: Caller;
  runId: string;
}

/** Starts a run that tells `count` events. A worker with room executes what it accepts itself. */
export async function startEvents(
  worker: TestWorker,
  input: { count: number; gate?: string; characters?: number; failure?: string },
): Promise<EventsRun> {
  const caller = { graphId: "events", tenant: `tenant-${randomUUID()}` };
  const body = { assistant_id: "events", input, stream_mode: ["custom"] };
  const { run_id } = await jsonOf(worker.call(caller, "POST", "/runs", body));
  return { caller, runId: run_id };
}

/** What a client has heard of a run's stream so far. */
export class Listener {
  readonly events: SentEvent[] = [];
  /** Resolves when the stream has ended, fails if it broke off. */
  readonly ended: Promise<void>;

  private constructor(response: Response) {
    this.ended = this.#listen(response);
    // Whoever waits for the end sees the failure; nobody has to.
    this.ended.catch(() => {});
  }

  /** @param lastEventId -1 for all. */
  static async open(worker: TestWorker, run: EventsRun, lastEventId = -1): Promise<Listener> {
    const response = await worker.call(run.caller, "GET", `/runs/${run.runId}/stream`, undefined, {
      headers: { "last-event-id": String(lastEventId) },
    });
    expect(response.status).to.equal(200);
    return new Listener(response);
  }

  /** Waits until it has heard of so many. */
  async hears(count: number): Promise<void> {
    await eventually(`${count} events (${this.events.length} came)`, () => {
      return this.events.length >= count;
    });
  }

  /** The numbers of the graph's events, as the client got them. */
  get numbers(): number[] {
    return this.events.filter(({ event }) => event === "custom").map(({ data }) => data.n);
  }

  async #listen(response: Response): Promise<void> {
    for await (const event of sentEvents(response)) this.events.push(event);
  }
}

/** 1 to `count`. */
export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}
