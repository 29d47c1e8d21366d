import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import type pg from "pg";
import { overConnectionLoss } from "../common/postgres.ts";
import { checkpointKey, type Scope } from "./scope.ts";

/** A run that this worker has claimed; without it a checkpointer writes for nobody's run. */
export interface Claim {
  runId: string;
  claimToken: string;
}

/** The lease of a run went to another worker: whatever this one still does must not count. */
export class LeaseLost extends Error {
  constructor(runId: string) {
    super(`The lease of run ${runId} went to another worker.`);
    this.name = "LeaseLost";
  }
}

const PATIENCE_MS = 30_000;

/**
 * PostgresSaver for one scope and, while a run executes, for one claim:
 *
 * - threads are filed under tenant and graph, so that no tenant can name another's thread;
 * - every write is one statement that first locks and checks the run's claim (fencing), instead of
 *   a transaction of many round trips;
 * - checkpoints carry their run's id, by which LangGraph resumes a run after a crash and a
 *   rollback finds what to undo;
 * - versions are unique, so that two branches of one thread never share a stored value (the saver
 *   keeps the first value written under a version).
 */
export class Checkpointer extends PostgresSaver {
  readonly #pool: pg.Pool;
  readonly #scope: Scope;
  readonly #claim: Claim | undefined;
  #isFresh: boolean;

  /**
   * @param options.fresh The thread is known to have no checkpoint yet: saves the first look-up.
   */
  constructor(
    pool: pg.Pool,
    scope: Scope,
    options: { schema: string; claim?: Claim; fresh?: boolean },
  ) {
    super(pool, undefined, { schema: options.schema });
    this.#pool = pool;
    this.#scope = scope;
    this.#claim = options.claim;
    this.#isFresh = options.fresh ?? false;
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    if (this.#isFresh) return undefined;
    const tuple = await overConnectionLoss(PATIENCE_MS, () => super.getTuple(this.#filed(config)));
    return tuple && this.#unfiledTuple(tuple);
  }

  override async *list(
    config: RunnableConfig,
    options?: CheckpointListOptions,
  ): AsyncGenerator<CheckpointTuple> {
    for await (const tuple of super.list(this.#filed(config), options)) {
      yield this.#unfiledTuple(tuple);
    }
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
    const blobs = await this._dumpBlobs(
      thread_id,
      checkpoint_ns,
      checkpoint.channel_values,
      newVersions,
    );
    const owned = this.#claim ? { ...metadata, run_id: this.#claim.runId } : metadata;
    this.#isFresh = false;
    await this.#write("put-checkpoint", PUT, [
      this.#key(thread_id),
      checkpoint_ns,
      checkpoint.id,
      checkpoint_id ?? null,
      JSON.stringify(this._dumpCheckpoint(checkpoint)),
      JSON.stringify(await this._dumpMetadata(owned)),
      blobs.map((blob) => blob[2]),
      blobs.map((blob) => blob[3]),
      blobs.map((blob) => blob[4]),
      blobs.map((blob) => (blob[5] === undefined ? null : asBuffer(blob[5]))),
    ]);
    return { configurable: { thread_id, checkpoint_ns, checkpoint_id: checkpoint.id } };
  }

  override async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
  ): Promise<void> {
    const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
    const rows = await this._dumpWrites(thread_id, checkpoint_ns, checkpoint_id, taskId, writes);
    const replaces = writes.every(([channel]) => channel in WRITES_IDX_MAP);
    this.#isFresh = false;
    await this.#write(
      replaces ? "replace-writes" : "put-writes",
      replaces ? REPLACE_WRITES : PUT_WRITES,
      [
        this.#key(thread_id),
        checkpoint_ns,
        checkpoint_id,
        taskId,
        rows.map((row) => row[4]),
        rows.map((row) => row[5]),
        rows.map((row) => row[6]),
        rows.map((row) => asBuffer(row[7])),
      ],
    );
  }

  override async deleteThread(threadId: string): Promise<void> {
    await super.deleteThread(this.#key(threadId));
  }

  /** Version n of a channel, with a random fraction: never the version of another branch. */
  override getNextVersion(current: number | undefined): number {
    return Math.floor(current ?? 0) + 1 + Math.floor(Math.random() * 1e9) / 1e9;
  }

  async #write(name: string, text: string, values: unknown[]): Promise<void> {
    const fence = [
      this.#scope.tenant,
      this.#scope.graphId,
      this.#claim?.runId ?? null,
      this.#claim?.claimToken ?? null,
    ];
    const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
      this.#pool.query({ name, text, values: [...fence, ...values] }),
    );
    if (rows.length === 0 && this.#claim !== undefined) throw new LeaseLost(this.#claim.runId);
  }

  #key(threadId: string): string {
    return checkpointKey(this.#scope, threadId);
  }

  #filed(config: RunnableConfig): RunnableConfig {
    const threadId = config.configurable?.thread_id;
    return { ...config, configurable: { ...config.configurable, thread_id: this.#key(threadId) } };
  }

  #unfiled(config: RunnableConfig): RunnableConfig {
    const key: string = config.configurable?.thread_id;
    const threadId = key.slice(this.#key("").length);
    return { ...config, configurable: { ...config.configurable, thread_id: threadId } };
  }

  #unfiledTuple(tuple: CheckpointTuple): CheckpointTuple {
    return {
      ...tuple,
      config: this.#unfiled(tuple.config),
      ...(tuple.parentConfig && { parentConfig: this.#unfiled(tuple.parentConfig) }),
    };
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

// $1–$4: tenant, graph, run, claim token. Without a run there is no claim to check.
const FENCE = `
  fence AS MATERIALIZED (
    SELECT 1 FROM run
      WHERE tenant = $1 AND graph_id = $2 AND run_id = $3::uuid AND claim_token = $4::uuid
      FOR SHARE
  ), allowed AS (SELECT 1 FROM fence UNION ALL SELECT 1 WHERE $3::uuid IS NULL)`;

const PUT = `
  WITH ${FENCE}, blobs AS (
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
      SELECT $5, $6, b.channel, b.version, b.type, b.blob
        FROM allowed, unnest($11::text[], $12::text[], $13::text[], $14::bytea[])
          AS b(channel, version, type, blob)
      ON CONFLICT DO NOTHING
  )
  INSERT INTO checkpoints
      (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
    SELECT $5, $6, $7, $8, $9::jsonb, $10::jsonb FROM allowed
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
      DO UPDATE SET checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata
    RETURNING 1`;

const INSERT_WRITES = `
  INSERT INTO checkpoint_writes
      (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
    SELECT $5, $6, $7, $8, w.idx, w.channel, w.type, w.blob
      FROM allowed, unnest($9::integer[], $10::text[], $11::text[], $12::bytea[])
        AS w(idx, channel, type, blob)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)`;
const PUT_WRITES = `
  WITH ${FENCE}, written AS (${INSERT_WRITES} DO NOTHING)
  SELECT 1 FROM allowed`;
const REPLACE_WRITES = `
  WITH ${FENCE}, written AS (${INSERT_WRITES}
      DO UPDATE SET channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob)
  SELECT 1 FROM allowed`;
