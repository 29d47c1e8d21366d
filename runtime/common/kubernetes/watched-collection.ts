import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { Logger } from "../logging.ts";
import { type Backoff, createBackoff } from "./backoff.ts";
import { type KubernetesClient, KubernetesError } from "./client.ts";

/** What of an object's metadata is needed to keep it. */
export interface Named {
  metadata: { name: string; namespace: string };
}

/** All objects of a kind, as the API server last said they are. */
export interface WatchedCollection<T extends Named> {
  /** By `namespace/name`. What was known stays known while the API server is away. */
  readonly objects: ReadonlyMap<string, T>;
  /** Whether the objects are known at all, and whether changes of them would be heard of now. */
  readonly state: "unknown" | "current" | "stale";
  stop(): void;
}

export interface WatchOptions<T extends Named> {
  client: KubernetesClient;
  /** E.g. `/api/v1/services`. */
  path: string;
  /** E.g. `metadata.name=platform`. */
  fieldSelector?: string;
  /** E.g. `platform.dev/graph-id`. */
  labelSelector?: string;
  /** What is kept of an object; the rest is forgotten, which is most of it. */
  schema: z.ZodType<T>;
  logger: Logger;
  /** Called after anything changed, the state too. */
  onChange: () => void;
  backoff?: Backoff;
}

/** Lists may be long: they come in pages of this many. */
const PAGE = "500";
const WATCH_S = 300;
/** The server sends a bookmark about every minute: longer silence is a connection that died. */
const IDLE_MS = 150_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

const page = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(z.unknown()),
});
const named = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string().default("") }),
});
const version = z.object({ metadata: z.object({ resourceVersion: z.string() }) });
const event = z.object({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.unknown(),
});
const failure = z.object({
  code: z.number().default(500),
  reason: z.string().default("Unknown"),
  message: z.string().default("The watch failed."),
});

/**
 * Keeps a copy of a collection: lists it, then watches it from that resource version on. A watch
 * that ends in order is gone on with; after anything else the collection is listed anew, so nothing
 * that was missed stays missed.
 */
export function watchCollection<T extends Named>(options: WatchOptions<T>): WatchedCollection<T> {
  const { client, path, logger, onChange } = options;
  const { backoff = createBackoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS) } = options;
  const { fieldSelector, labelSelector } = options;
  const query: Record<string, string> = {
    ...(fieldSelector !== undefined && { fieldSelector }),
    ...(labelSelector !== undefined && { labelSelector }),
  };
  const stopping = new AbortController();
  const { signal } = stopping;
  let objects = new Map<string, T>();
  let state: WatchedCollection<T>["state"] = "unknown";

  void follow();

  async function follow(): Promise<void> {
    while (!signal.aborted) {
      try {
        let from = await list();
        while (!signal.aborted) from = await watchFrom(from);
      } catch (error) {
        if (signal.aborted) return;
        lost(error);
        await delay(backoff.next(), undefined, { signal }).catch(() => {});
      }
    }
  }

  async function list(): Promise<string> {
    const found = new Map<string, T>();
    let next: string | undefined;
    for (;;) {
      const more: Record<string, string> = next === undefined ? {} : { continue: next };
      const answer = await client.get(path, { ...query, limit: PAGE, ...more }, signal);
      const { items, metadata } = page.parse(answer);
      for (const item of items) keep(found, item);
      next = metadata.continue === "" ? undefined : metadata.continue;
      if (next !== undefined) continue;
      objects = found;
      if (state === "stale") logger.info({ path }, "the API server answers again");
      state = "current";
      onChange();
      return metadata.resourceVersion;
    }
  }

  /** @returns from where to go on. */
  async function watchFrom(resourceVersion: string): Promise<string> {
    const timeoutSeconds = String(Math.round(WATCH_S * (1 + Math.random())));
    const events = client.watch(
      path,
      { ...query, resourceVersion, timeoutSeconds },
      IDLE_MS,
      signal,
    );
    const started = performance.now();
    let seen = resourceVersion;
    try {
      for await (const item of events) {
        const { type, object } = event.parse(item);
        if (type === "ERROR") throw asError(object);
        seen = version.parse(object).metadata.resourceVersion;
        if (type === "BOOKMARK") continue;
        if (type === "DELETED") objects.delete(keyOf(named.parse(object)));
        else keep(objects, object);
        onChange();
      }
    } finally {
      if (performance.now() - started > LONGEST_PAUSE_MS) backoff.reset();
    }
    // A server that ends every watch at once must not be asked in a tight loop.
    if (seen === resourceVersion) await delay(backoff.next(), undefined, { signal });
    return seen;
  }

  function keep(into: Map<string, T>, item: unknown): void {
    const parsed = options.schema.safeParse(item);
    if (parsed.success) into.set(keyOf(parsed.data), parsed.data);
    // One object that no one can read must not keep all others from being served.
    else logger.error({ path, error: z.prettifyError(parsed.error) }, "an object is not readable");
  }

  function lost(error: unknown): void {
    // A version that is too old is the ordinary end of a watch, and the list that follows heals it.
    if (error instanceof KubernetesError && error.status === 410) return;
    const reason = error instanceof Error ? error.message : String(error);
    const told = { path, error: reason };
    if (state === "stale") logger.debug(told, "the API server does not answer yet");
    else logger.warn(told, "the API server can't be watched; what is known stays in force");
    if (state !== "current") return;
    state = "stale";
    onChange();
  }

  return {
    get objects() {
      return objects;
    },
    get state() {
      return state;
    },
    stop: () => stopping.abort(),
  };
}

function keyOf({ metadata }: Named): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function asError(object: unknown): KubernetesError {
  const { code, reason, message } = failure.parse(object);
  return new KubernetesError(code, reason, message);
}
