/** A checkpoint as PostgresSaver dumps it; blobs: key, namespace, channel, version, type, value. */
export interface CheckpointRow {
  key: string;
  namespace: string;
  id: string;
  parentId: string | null;
  checkpoint: string;
  metadata: string;
  blobs: [string, string, string, string, string, Uint8Array | undefined][];
}

/** A write as PostgresSaver dumps it. */
export type WriteRow = [
  key: string,
  namespace: string,
  checkpointId: string,
  taskId: string,
  index: number,
  channel: string,
  type: string,
  value: Uint8Array,
];

/** Checkpoints, channel values and task writes that go to the database in one statement. */
export class CheckpointBatch {
  readonly #checkpoints = new Map<string, CheckpointRow>();
  readonly #writes = new Map<string, WriteRow>();
  readonly #replacingWrites = new Map<string, WriteRow>();

  get isEmpty(): boolean {
    return (
      this.#checkpoints.size === 0 && this.#writes.size === 0 && this.#replacingWrites.size === 0
    );
  }

  addCheckpoint(row: CheckpointRow): void {
    this.#checkpoints.set(JSON.stringify([row.key, row.namespace, row.id]), row);
  }

  /** @param replaces Later writes of the same index win; otherwise the first one stays. */
  addWrites(rows: WriteRow[], replaces: boolean): void {
    const writes = replaces ? this.#replacingWrites : this.#writes;
    for (const row of rows) {
      const id = JSON.stringify(row.slice(0, 5));
      if (replaces || !writes.has(id)) writes.set(id, row);
    }
  }

  /** The values of {@link CheckpointBatch.statement} from $6 on. */
  parameters(): unknown[] {
    const checkpoints = [...this.#checkpoints.values()];
    const blobs = checkpoints.flatMap((row) => row.blobs);
    return [
      checkpoints.map((row) => row.key),
      checkpoints.map((row) => row.namespace),
      checkpoints.map((row) => row.id),
      checkpoints.map((row) => row.parentId),
      checkpoints.map((row) => row.checkpoint),
      checkpoints.map((row) => row.metadata),
      blobs.map((blob) => blob[0]),
      blobs.map((blob) => blob[1]),
      blobs.map((blob) => blob[2]),
      blobs.map((blob) => blob[3]),
      blobs.map((blob) => blob[4]),
      blobs.map((blob) => (blob[5] === undefined ? null : asBuffer(blob[5]))),
      ...columns([...this.#writes.values()]),
      ...columns([...this.#replacingWrites.values()]),
    ];
  }

  /**
   * $1–$5 are the fence: tenant, graph, and either a run with its claim token or a thread on which
   * no run is active. Answers one row if it holds, and writes nothing if it does not.
   */
  static readonly statement = `
    WITH claimed AS MATERIALIZED (
      SELECT 1 FROM run
        WHERE tenant = $1 AND graph_id = $2 AND run_id = $3::uuid AND claim_token = $4::uuid
        FOR SHARE
    ), at_rest AS MATERIALIZED (
      SELECT 1 FROM thread
        WHERE tenant = $1 AND graph_id = $2 AND thread_id = $5::uuid AND status <> 'busy'
        FOR UPDATE
    ), allowed AS (
      SELECT 1 FROM claimed UNION ALL SELECT 1 FROM at_rest
    ), put_checkpoints AS (
      INSERT INTO checkpoints
          (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
        SELECT c.* FROM allowed,
            unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::jsonb[], $11::jsonb[]) AS c
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
          DO UPDATE SET checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata
    ), put_blobs AS (
      INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
        SELECT b.* FROM allowed,
            unnest($12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bytea[])
              AS b
        ON CONFLICT DO NOTHING
    ), put_writes AS (
      INSERT INTO checkpoint_writes
          (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
        SELECT w.* FROM allowed,
            unnest($18::text[], $19::text[], $20::text[], $21::text[], $22::integer[],
                   $23::text[], $24::text[], $25::bytea[]) AS w
        ON CONFLICT DO NOTHING
    ), replace_writes AS (
      INSERT INTO checkpoint_writes
          (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
        SELECT w.* FROM allowed,
            unnest($26::text[], $27::text[], $28::text[], $29::text[], $30::integer[],
                   $31::text[], $32::text[], $33::bytea[]) AS w
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
          DO UPDATE SET channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob
    )
    SELECT 1 FROM allowed`;
}

function columns(rows: WriteRow[]): unknown[][] {
  return [
    rows.map((row) => row[0]),
    rows.map((row) => row[1]),
    rows.map((row) => row[2]),
    rows.map((row) => row[3]),
    rows.map((row) => row[4]),
    rows.map((row) => row[5]),
    rows.map((row) => row[6]),
    rows.map((row) => asBuffer(row[7])),
  ];
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
