import type pg from "pg";
import { overConnectionLoss } from "../common/postgres.ts";
import type { GraphConfig } from "./graphs.ts";
import { fromJsonb, jsonb } from "./jsonb.ts";
import type { Scope } from "./scope.ts";
import type { ThreadSearch } from "./wire.ts";

/** A thread as clients see it. */
export interface Thread {
  thread_id: string;
  created_at: string;
  updated_at: string;
  state_updated_at: string;
  metadata: Record<string, unknown>;
  config: Record<string, unknown>;
  status: "idle" | "busy" | "interrupted" | "error";
  values: unknown;
  interrupts: Record<string, unknown[]>;
  error: unknown;
}

export type ThreadFilter = Pick<ThreadSearch, "metadata" | "values" | "status"> & {
  ids?: string[] | null | undefined;
};

const PATIENCE_MS = 10_000;
const COLUMNS = `thread_id, created_at, updated_at, updated_at AS state_updated_at, metadata, config,
  status, "values", interrupts, error`;
const KEY = "tenant = $1 AND graph_id = $2 AND thread_id = $3";

/** The threads in PostgreSQL; their states are the checkpointer's. */
export class ThreadStore {
  readonly #pool: pg.Pool;

  constructor(pool: pg.Pool) {
    this.#pool = pool;
  }

  /** Creates a thread; undefined if there is one of that id. */
  async create(
    scope: Scope,
    threadId: string,
    metadata: Record<string, unknown>,
  ): Promise<Thread | undefined> {
    const rows = await this.#query(
      `INSERT INTO thread (tenant, graph_id, thread_id, metadata) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING RETURNING ${COLUMNS}`,
      [scope.tenant, scope.graphId, threadId, jsonb(metadata)],
    );
    return rows[0];
  }

  /** The configuration of a thread's last run; undefined where it has had none. */
  async lastConfig(scope: Scope, threadId: string): Promise<GraphConfig | undefined> {
    const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
      this.#pool.query<{ config: GraphConfig }>({
        text: `SELECT kwargs -> 'config' AS config FROM run WHERE ${KEY}
                 ORDER BY created_at DESC LIMIT 1`,
        values: [scope.tenant, scope.graphId, threadId],
      }),
    );
    return rows[0]?.config;
  }

  async get(scope: Scope, threadId: string): Promise<Thread | undefined> {
    const rows = await this.#query(`SELECT ${COLUMNS} FROM thread WHERE ${KEY}`, [
      scope.tenant,
      scope.graphId,
      threadId,
    ]);
    return rows[0];
  }

  /** Merges metadata into a thread's; undefined if there is no such thread. */
  async patch(
    scope: Scope,
    threadId: string,
    metadata: Record<string, unknown>,
  ): Promise<Thread | undefined> {
    const rows = await this.#query(
      `UPDATE thread SET metadata = metadata || $4, updated_at = now()
         WHERE ${KEY} RETURNING ${COLUMNS}`,
      [scope.tenant, scope.graphId, threadId, jsonb(metadata)],
    );
    return rows[0];
  }

  /** Notes what a state update by hand made of a thread. Values and interrupts are JSON texts. */
  async setState(
    scope: Scope,
    threadId: string,
    state: { status: "idle" | "interrupted"; values: string; interrupts: string },
  ): Promise<void> {
    await this.#query(
      `UPDATE thread SET status = $4, settled = $4, "values" = $5, interrupts = $6, error = NULL,
           updated_at = now()
         WHERE ${KEY} AND status <> 'busy' RETURNING ${COLUMNS}`,
      [scope.tenant, scope.graphId, threadId, state.status, state.values, state.interrupts],
    );
  }

  /**
   * Deletes a thread with its runs, events and checkpoints.
   *
   * @returns The ids of runs that were active on it; undefined if there is no such thread.
   */
  async delete(scope: Scope, threadId: string): Promise<string[] | undefined> {
    const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
      this.#pool.query<{ active: string[] | null }>({
        text: "SELECT delete_thread($1, $2, $3) AS active",
        values: [scope.tenant, scope.graphId, threadId],
      }),
    );
    return rows[0]?.active ?? undefined;
  }

  /** Copies a thread with all its checkpoints; undefined if there is none to copy. */
  async copy(scope: Scope, from: string, to: string): Promise<Thread | undefined> {
    await overConnectionLoss(PATIENCE_MS, () =>
      this.#pool.query({
        text: "SELECT copy_thread($1, $2, $3, $4)",
        values: [scope.tenant, scope.graphId, from, to],
      }),
    );
    return await this.get(scope, to);
  }

  /** @param limit One more than a page, to learn whether there is another. */
  async search(scope: Scope, search: ThreadSearch, limit: number): Promise<Thread[]> {
    const { where, values } = filterOf(scope, search);
    const column = search.sort_by === "state_updated_at" ? "updated_at" : search.sort_by;
    const order = `${column ?? "created_at"} ${search.sort_order === "asc" ? "ASC" : "DESC"}`;
    const rows = await this.#query(
      `SELECT ${COLUMNS} FROM thread WHERE ${where} ORDER BY ${order}, thread_id
         LIMIT $${values.length + 1} OFFSET $${values.length + 2}`,
      [...values, limit, search.offset ?? 0],
    );
    return rows;
  }

  async count(scope: Scope, filter: ThreadFilter): Promise<number> {
    const { where, values } = filterOf(scope, filter);
    const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
      this.#pool.query<{ count: number }>({
        text: `SELECT count(*)::integer AS count FROM thread WHERE ${where}`,
        values,
      }),
    );
    return rows[0]?.count ?? 0;
  }

  async #query(text: string, values: unknown[]): Promise<Thread[]> {
    const { rows } = await overConnectionLoss(PATIENCE_MS, () =>
      this.#pool.query<Thread>({ text, values }),
    );
    return rows.map((row) => ({ ...row, metadata: fromJsonb(row.metadata) }));
  }
}

function filterOf(scope: Scope, filter: ThreadFilter): { where: string; values: unknown[] } {
  const values: unknown[] = [scope.tenant, scope.graphId];
  const wheres = ["tenant = $1", "graph_id = $2"];
  const add = (condition: string, value: unknown) => {
    values.push(value);
    wheres.push(condition.replace("?", `$${values.length}`));
  };
  if (filter.metadata != null) add("metadata @> ?", jsonb(filter.metadata));
  if (filter.values != null) add('marked_jsonb("values") @> ?', jsonb(filter.values));
  if (filter.status != null) add("status = ?", filter.status);
  if (filter.ids != null) add("thread_id = ANY(?)", filter.ids);
  return { where: wheres.join(" AND "), values };
}
