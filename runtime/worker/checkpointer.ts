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
import { conflict } from "../common/errors.ts";
import { overConnectionLoss } from "../common/postgres.ts";
import { CheckpointBatch } from "./checkpoint-batch.ts";
import { fromJsonb, jsonb } from "./jsonb.ts";
import { checkpointKey, type Scope } from "./scope.ts";

/** A run that this worker has claimed. */
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

/** How long a run waits for a database that restarts, in ms. */
const PATIENCE_MS = 30_000;
/** Checkpoints wait this long for company. What a crash loses of them is done again. */
const GATHER_MS = 10;

/** What must hold for every write: a run's claim, or that no run is active on a thread. */
export type Fence = { claim: Claim } | { threadAtRest: string };

export interface CheckpointerOptions {
  schema: string;
  /** Without one nothing can be written. */
  fence?: Fence;
  /** The thread is known to have no checkpoint yet: saves looking for one. */
  fresh?: boolean;
  /** Every checkpoint is on disk before the graph goes on (LangGraph's durability `sync`). */
  writeThrough?: boolean;
  /** How long a database that is away is waited for, in ms. */
  patienceMs?: number;
  /** Called right before each write; what it throws keeps that write, and all later ones, out. */
  beforeWrite?: () => void;
  /** Called once if checkpoints can't be written, e.g. with {@link LeaseLost}. */
  onFailure?: (error: unknown) => void;
}

/**
 * PostgresSaver for one scope and, where it writes, within one fence:
 *
 * - threads are filed under tenant and graph, so that no tenant can name another's thread;
 * - checkpoints gather for a few ms and go out in one statement that first locks and checks the
 *   fence, instead of a transaction of many round trips each;
 * - checkpoints carry their run's id, by which LangGraph resumes a run after a crash and a
 *   rollback finds what to undo;
 * - versions are unique, so that two branches of one thread never share a stored value (the saver
 *   keeps the first value written under a version).
 */
export class Checkpointer extends PostgresSaver {
  readonly #pool: pg.Pool;
  readonly #scope: Scope;
  readonly #options: CheckpointerOptions;
  #batch = new CheckpointBatch();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** On a fresh thread: the namespaces in which there is anything to be found. */
  readonly #written: Set<string> | undefined;
  readonly #patienceMs: number;
  #isClosed = false;

  constructor(pool: pg.Pool, scope: Scope, options: CheckpointerOptions) {
    super(pool, undefined, { schema: options.schema });
    this.#pool = pool;
    this.#scope = scope;
    this.#options = options;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
    this.#written = options.fresh ? new Set() : undefined;
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const namespace: string = config.configurable?.checkpoint_ns ?? "";
    if (this.#written?.has(namespace) === false) return undefined;
    await this.flush();
    const tuple = await overConnectionLoss(this.#patienceMs, () =>
      super.getTuple(this.#filed(config)),
    );
    return tuple && this.#unfiledTuple(tuple);
  }

  override async *list(
    config: RunnableConfig,
    options?: CheckpointListOptions,
  ): AsyncGenerator<CheckpointTuple> {
    await this.flush();
    const filter = options?.filter && { filter: JSON.parse(jsonb(options.filter)) };
    const tuples = await overConnectionLoss(this.#patienceMs, () =>
      all(super.list(this.#filed(config), { ...options, ...filter })),
    );
    for (const tuple of tuples) yield this.#unfiledTuple(tuple);
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
    this.#written?.add(checkpoint_ns);
    const { claim } = this.#fence;
    // As on LangGraph's own server: history can be searched by what a run was labelled with.
    const { thread_id: _, ...labels } = config.metadata ?? {};
    const owned = { ...labels, ...metadata, ...(claim && { run_id: claim.runId }) };
    this.#batch.addCheckpoint({
      key: this.#key(thread_id),
      namespace: checkpoint_ns,
      id: checkpoint.id,
      parentId: checkpoint_id ?? null,
      checkpoint: JSON.stringify(this._dumpCheckpoint(checkpoint)),
      metadata: jsonb(await this._dumpMetadata(owned)),
      blobs: await this._dumpBlobs(
        this.#key(thread_id),
        checkpoint_ns,
        checkpoint.channel_values,
        newVersions,
      ),
    });
    await this.#gather();
    return { configurable: { thread_id, checkpoint_ns, checkpoint_id: checkpoint.id } };
  }

  override async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
  ): Promise<void> {
    const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
    const key = this.#key(thread_id);
    this.#batch.addWrites(
      await this._dumpWrites(key, checkpoint_ns, checkpoint_id, taskId, writes),
      writes.every(([channel]) => channel in WRITES_IDX_MAP),
    );
    await this.#gather();
  }

  override async deleteThread(threadId: string): Promise<void> {
    await super.deleteThread(this.#key(threadId));
  }

  /** Version n of a channel, with a random fraction: never the version of another branch. */
  override getNextVersion(current: number | undefined): number {
    return Math.floor(current ?? 0) + 1 + Math.floor(Math.random() * 1e9) / 1e9;
  }

  /**
   * Writes what has gathered.
   * @throws LeaseLost, or what the database says.
   */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#batch.isEmpty) {
      const batch = this.#batch;
      this.#batch = new CheckpointBatch();
      this.#writing = this.#writing.then(() => this.#write(batch));
    }
    await this.#writing;
  }

  /** Forgets what has gathered: the thread goes with its run, or the run is somebody else's. */
  discard(): void {
    clearTimeout(this.#timer);
    this.#isClosed = true;
    this.#batch = new CheckpointBatch();
  }

  async #gather(): Promise<void> {
    if (this.#isClosed) return;
    // Without a run there is nobody who would flush later.
    if (this.#options.writeThrough || this.#fence.claim === undefined) return this.flush();
    this.#timer ??= setTimeout(() => {
      this.flush().catch((error: unknown) => this.#options.onFailure?.(error));
    }, GATHER_MS);
  }

  async #write(batch: CheckpointBatch): Promise<void> {
    this.#options.beforeWrite?.();
    const { claim, threadAtRest } = this.#fence;
    const fence = [
      this.#scope.tenant,
      this.#scope.graphId,
      claim?.runId ?? null,
      claim?.claimToken ?? null,
      threadAtRest ?? null,
    ];
    const { rows } = await overConnectionLoss(this.#patienceMs, () =>
      this.#pool.query({
        name: "put-checkpoints",
        text: CheckpointBatch.statement,
        values: [...fence, ...batch.parameters()],
      }),
    );
    if (rows.length > 0) return;
    if (claim !== undefined) throw new LeaseLost(claim.runId);
    throw conflict(`Thread ${threadAtRest} has an active run. Wait for it or cancel it first.`);
  }

  get #fence(): { claim?: Claim; threadAtRest?: string } {
    return this.#options.fence ?? {};
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
      ...(tuple.metadata && { metadata: fromJsonb(tuple.metadata) }),
      config: this.#unfiled(tuple.config),
      ...(tuple.parentConfig && { parentConfig: this.#unfiled(tuple.parentConfig) }),
    };
  }
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}
