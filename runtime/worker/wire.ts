import { z } from "zod";

/*
 * The shapes of the LangGraph wire, as both SDKs (JS 1.12, Python) send them.
 */

const record = z.record(z.string(), z.unknown());
export const uuid = z.guid("must be a UUID");
/** A name that becomes part of a key in the database. */
const name = z.string().regex(/^[^\0]*$/, "must not contain U+0000");
const namedValues = z.record(name, z.unknown());

const checkpointId = z.guid("must be the UUID of a checkpoint");
const checkpoint = z.looseObject({
  checkpoint_id: checkpointId.nullish(),
  checkpoint_ns: name.nullish(),
  checkpoint_map: z.record(name, checkpointId).nullish(),
});

const runnableConfig = z
  .looseObject({
    tags: z.array(z.string()).nullish(),
    recursion_limit: z.number().int().positive().nullish(),
    configurable: checkpoint.nullish(),
    metadata: record.nullish(),
  })
  .nullish();

const gotoTarget = z.union([name, z.object({ node: name, input: z.unknown().optional() })]);

export const command = z.strictObject({
  goto: z.union([gotoTarget, z.array(gotoTarget)]).nullish(),
  update: z.union([namedValues, z.array(z.tuple([name, z.unknown()]))]).nullish(),
  resume: z.unknown().optional(),
});
export type CommandBody = z.output<typeof command>;

const STREAM_MODES = [
  "values",
  "updates",
  "messages",
  "messages-tuple",
  "custom",
  "events",
  "debug",
  "tasks",
  "checkpoints",
] as const;
const unknownStreamMode = {
  error: ({ input }: { input?: unknown }) =>
    `${JSON.stringify(input)} is not one of ${STREAM_MODES.join(", ")}`,
};
export const streamMode = z.enum(STREAM_MODES, unknownStreamMode);
export type StreamMode = z.output<typeof streamMode>;

const nodeNames = z.union([z.literal("*"), z.array(z.string())]).nullish();

const unsupported = (what: string) => z.null({ error: `${what} are not supported yet` }).optional();

export const runCreate = z.object({
  assistant_id: z.string().min(1, "must not be empty"),
  /** Clients send it along; the call was routed by its header. */
  graph_id: z.string().nullish(),
  input: z.unknown().optional(),
  command: command.nullish(),
  config: runnableConfig,
  context: record.nullish(),
  metadata: record.nullish(),
  checkpoint_id: checkpointId.nullish(),
  checkpoint: checkpoint.nullish(),
  interrupt_before: nodeNames,
  interrupt_after: nodeNames,
  // A list is looked at apart from the union, which would blame all of it for one wrong mode.
  stream_mode: z
    .union([streamMode, z.array(z.unknown())], unknownStreamMode)
    .nullish()
    .transform((mode) => (mode == null ? [] : Array.isArray(mode) ? mode : [mode]))
    .pipe(z.array(streamMode)),
  stream_subgraphs: z.boolean().nullish(),
  stream_resumable: z.boolean().nullish(),
  multitask_strategy: z.enum(["reject", "interrupt", "rollback", "enqueue"]).nullish(),
  on_completion: z.enum(["delete", "keep"]).nullish(),
  on_disconnect: z.enum(["cancel", "continue"]).nullish(),
  after_seconds: z.number().min(0).max(31_536_000).nullish(),
  if_not_exists: z.enum(["reject", "create"]).nullish(),
  durability: z.enum(["sync", "async", "exit"]).nullish(),
  checkpoint_during: z.boolean().nullish(),
  webhook: unsupported("webhooks"),
  feedback_keys: unsupported("feedback keys"),
});
export type RunCreate = z.output<typeof runCreate>;

export const runBatch = z.array(runCreate).min(1).max(100);

export const runCancelMany = z.object({
  thread_id: uuid.nullish(),
  run_ids: z.array(uuid).min(1).max(1000).nullish(),
  status: z.enum(["pending", "running", "all"]).nullish(),
});

export const threadCreate = z.object({
  thread_id: uuid.nullish(),
  metadata: record.nullish(),
  if_exists: z.enum(["raise", "do_nothing"]).nullish(),
  ttl: unsupported("thread time-to-live settings"),
  supersteps: z
    .array(
      z.object({
        updates: z.array(
          z.object({
            values: z.unknown().optional(),
            command: command.nullish(),
            as_node: name,
          }),
        ),
      }),
    )
    .nullish(),
});

export const threadPatch = z.object({ metadata: record });

export const threadStatus = z.enum(["idle", "busy", "interrupted", "error"]);

const threadFilter = {
  metadata: record.nullish(),
  values: record.nullish(),
  status: threadStatus.nullish(),
};

export const threadSearch = z.object({
  ...threadFilter,
  ids: z.array(uuid).max(1000).nullish(),
  limit: z.number().int().min(1).max(1000).nullish(),
  offset: z.number().int().min(0).nullish(),
  sort_by: z
    .enum(["thread_id", "status", "created_at", "updated_at", "state_updated_at"])
    .nullish(),
  sort_order: z.enum(["asc", "desc"]).nullish(),
  select: z.array(z.string()).nullish(),
  extract: unsupported("extracted values"),
});
export type ThreadSearch = z.output<typeof threadSearch>;

export const threadCount = z.object(threadFilter);

export const stateUpdate = z.object({
  values: z.union([record, z.array(record)]).nullish(),
  as_node: name.nullish(),
  checkpoint_id: checkpointId.nullish(),
  checkpoint: checkpoint.nullish(),
});

export const stateAtCheckpoint = z.object({
  checkpoint,
  subgraphs: z.boolean().nullish(),
});

export const historyQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1000).nullish(),
  /** A checkpoint, its id, or (as the SDKs' types have it) a config that names one. */
  before: z
    .union([
      checkpointId.transform((checkpoint_id) => ({ checkpoint_id })),
      z.looseObject({ configurable: checkpoint }).transform(({ configurable }) => configurable),
      checkpoint,
    ])
    .nullish(),
  metadata: record.nullish(),
  checkpoint: checkpoint.nullish(),
});
export type HistoryQuery = z.output<typeof historyQuery>;

const flag = z
  .enum(["true", "false", "1", "0"])
  .optional()
  .transform((value) => value === "true" || value === "1");

export const stateQuery = z.object({ subgraphs: flag });
export const cancelQuery = z.object({
  wait: flag,
  action: z.enum(["interrupt", "rollback"]).default("interrupt"),
});
/** Several modes come as repeated parameters or with commas between them. */
export const joinStreamQuery = z.object({
  cancel_on_disconnect: flag,
  stream_mode: z
    .array(z.string())
    .optional()
    .transform((modes) => modes?.flatMap((mode) => mode.split(",")))
    .pipe(z.array(streamMode).optional()),
});
export const joinQuery = z.object({ cancel_on_disconnect: flag });
export const runListQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1000).default(10),
  offset: z.coerce.number().int().min(0).default(0),
  status: z.enum(["pending", "running", "error", "success", "timeout", "interrupted"]).optional(),
});

export const assistantSearch = z.object({
  metadata: record.nullish(),
  graph_id: z.string().nullish(),
  name: z.string().nullish(),
  limit: z.number().int().min(1).max(1000).nullish(),
  offset: z.number().int().min(0).nullish(),
  sort_by: z.string().nullish(),
  sort_order: z.enum(["asc", "desc"]).nullish(),
  select: z.array(z.string()).nullish(),
});
export const assistantQuery = z.object({ xray: z.string().optional(), recurse: flag });
