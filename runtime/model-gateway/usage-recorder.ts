import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import { HttpError } from "../common/errors.ts";
import type { Logger } from "../common/logging.ts";
import { isConnectionLoss, overConnectionLoss } from "../common/postgres.ts";

/** What one call to a provider cost, as a row of table `usage`. */
export interface UsageRecord {
  id: string;
  tenant: string;
  agent: string | null;
  provider: string;
  /** The provider's own name of the model. */
  model: string;
  input_tokens: number;
  output_tokens: number;
  estimated: boolean;
  /** 499: the client left; 502 on a streamed answer: it broke off after the first byte. */
  status: number;
  streamed: boolean;
  duration_ms: number;
  request_id: string;
  trace_id: string | null;
  /** ISO 8601. */
  created_at: string;
}

/** Takes usage without holding up the answer that it belongs to. */
export interface UsageRecorder {
  record(usage: UsageRecord): void;
  /** Writes what is queued, for a few seconds at most. */
  close(): Promise<void>;
}

export interface UsageRecorderOptions {
  insert(records: readonly UsageRecord[]): Promise<void>;
  logger: Logger;
  /** How many records wait while the database is away. */
  capacity?: number;
  /** How long one batch is tried before the log says that the database is away, in ms. */
  patienceMs?: number;
  /** How long {@link UsageRecorder.close} waits, in ms. */
  closeMs?: number;
}

const BATCH = 500;

/**
 * Queues records and writes them in batches, over restarts of the database. A record that can't be
 * kept goes to the log in full, so that it can be billed from there.
 */
export function createUsageRecorder(options: UsageRecorderOptions): UsageRecorder {
  const { insert, logger, capacity = 10_000, patienceMs = 10_000, closeMs = 3_000 } = options;
  const queue: UsageRecord[] = [];
  let writing: Promise<void> | undefined;
  let closed = false;

  const lose = (reason: string, usage: UsageRecord, error?: unknown) =>
    logger.error({ usage, error: error instanceof Error ? error.message : undefined }, reason);

  async function write(batch: readonly UsageRecord[]): Promise<void> {
    try {
      await overConnectionLoss(patienceMs, () => insert(batch));
    } catch (error) {
      if (isAway(error)) throw error;
      // One record that the database refuses must not take its neighbours along.
      if (batch.length === 1 && batch[0]) return lose("usage refused", batch[0], error);
      for (const record of batch) await write([record]);
    }
  }

  async function writeAll(): Promise<void> {
    while (queue.length > 0 && !closed) {
      const batch = queue.slice(0, BATCH);
      try {
        await write(batch);
        queue.splice(0, batch.length);
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        logger.error({ queued: queue.length, error: message }, "usage can't be written for now");
      }
    }
  }

  return {
    record(usage) {
      if (queue.length >= capacity) {
        lose("usage not recorded: the queue is full", usage);
        return;
      }
      queue.push(usage);
      writing ??= writeAll().finally(() => {
        writing = undefined;
      });
    },
    async close() {
      const late = new AbortController();
      await Promise.race([writing, delay(closeMs, undefined, { signal: late.signal })]);
      late.abort();
      closed = true;
      for (const usage of queue) lose("usage not recorded: the database is away", usage);
    },
  };
}

/** Inserts records; doing it twice does no harm. */
export function insertUsage(pool: Pool): UsageRecorderOptions["insert"] {
  return async (records) => {
    await pool.query({ name: "insert-usage", text: INSERT, values: [JSON.stringify(records)] });
  };
}

const INSERT = `
  INSERT INTO usage (id, tenant, agent, provider, model, input_tokens, output_tokens, estimated,
                     status, streamed, duration_ms, request_id, trace_id, created_at)
  SELECT id, tenant, agent, provider, model, input_tokens, output_tokens, estimated,
         status, streamed, duration_ms, request_id, trace_id, created_at
  FROM json_to_recordset($1::json) AS record(
    id uuid, tenant text, agent text, provider text, model text, input_tokens integer,
    output_tokens integer, estimated boolean, status smallint, streamed boolean,
    duration_ms integer, request_id text, trace_id text, created_at timestamptz)
  ON CONFLICT (id) DO NOTHING`;

/** A lost connection, or what {@link overConnectionLoss} makes of one that stays lost. */
function isAway(error: unknown): boolean {
  return isConnectionLoss(error) || (error instanceof HttpError && error.code === "unavailable");
}
