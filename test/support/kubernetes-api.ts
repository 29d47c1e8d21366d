import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { type KubernetesObject, type ObjectPath, ObjectStore, StoreError } from "./object-store.ts";

export type { KubernetesObject } from "./object-store.ts";

/** One request that the stand-in got. */
export interface ApiRequest {
  method: string;
  /** Path without its query. */
  path: string;
  query: URLSearchParams;
  body: unknown;
  contentType: string | undefined;
  authorization: string | undefined;
}

interface Watcher {
  collection: ObjectPath;
  fieldSelector: string | null;
  labelSelector: string | null;
  bookmarks: boolean;
  outgoing: ServerResponse;
}

/**
 * A stand-in for the Kubernetes API server, in this process: lists, watches from a resource
 * version, writes and status writes of any kind of object, and the failures of a real one on
 * request. It checks no schemas and sets no defaults of its own.
 */
export class KubernetesApi {
  readonly store = new ObjectStore();
  readonly requests: ApiRequest[] = [];
  /** Answers instead of the stand-in where it returns true. */
  intercept: ((request: ApiRequest, outgoing: ServerResponse) => boolean) | undefined;
  readonly #watchers = new Set<Watcher>();
  readonly #server = createServer((incoming, outgoing) => {
    this.#answer(incoming, outgoing).catch((error: unknown) => refuse(outgoing, error));
  });

  constructor() {
    this.store.onChange = (type, path, object) => {
      for (const watcher of this.#watchers) {
        if (!concerns(watcher, path, object)) continue;
        writeEvent(watcher.outgoing, type, object);
      }
    };
  }

  /** @param port That of an earlier start, for a server that comes back. */
  async start(port = 0): Promise<URL> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, "127.0.0.1", resolve);
    });
    return this.url;
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`);
  }

  /** How many watches are open, of one collection or of all. */
  watchers(resource?: string): number {
    const all = [...this.#watchers];
    return all.filter(({ collection }) => (resource ?? collection.resource) === collection.resource)
      .length;
  }

  /** Breaks every open watch off, as a load balancer does. */
  disconnect(): void {
    for (const { outgoing } of this.#takeWatchers()) outgoing.destroy();
  }

  /** Ends every open watch in order, as the server does when its time is up. */
  endWatches(): void {
    for (const { outgoing } of this.#takeWatchers()) outgoing.end();
  }

  /** Tells every open watch that its resource version is too old, and ends it. */
  expireWatches(): void {
    for (const { outgoing } of this.#takeWatchers()) {
      const gone = { kind: "Status", status: "Failure", reason: "Expired", code: 410 };
      writeEvent(outgoing, "ERROR", { ...gone, message: "too old resource version" });
      outgoing.end();
    }
  }

  /** Those that are to end hear of no further change. */
  #takeWatchers(): Watcher[] {
    const watchers = [...this.#watchers];
    this.#watchers.clear();
    return watchers;
  }

  async stop(): Promise<void> {
    await new Promise((resolve) => {
      this.#server.close(resolve);
      this.#server.closeAllConnections();
    });
  }

  /** The requests that wrote, oldest first. */
  writes(resource?: string): ApiRequest[] {
    return this.requests.filter(
      ({ method, path }) =>
        method !== "GET" && (resource === undefined || path.split("/").includes(resource)),
    );
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? "/", "http://api");
    const request: ApiRequest = {
      method: incoming.method ?? "GET",
      path: url.pathname,
      query: url.searchParams,
      body: hasBody(incoming) ? await json(incoming) : undefined,
      contentType: incoming.headers["content-type"],
      authorization: incoming.headers.authorization,
    };
    this.requests.push(request);
    if (this.intercept?.(request, outgoing)) return;
    const path = this.store.pathOf(request.path);
    if (request.method !== "GET") return send(outgoing, this.#write(request, path));
    if (path.name !== undefined) return send(outgoing, this.store.get(path));
    if (request.query.get("watch") === "true") return this.#watch(request, path, outgoing);
    const { items, ...rest } = this.store.list(path);
    const wanted = items.filter((object) => selected(object, request.query));
    send(outgoing, { ...rest, items: wanted });
  }

  #write(request: ApiRequest, path: ObjectPath): KubernetesObject {
    if (request.method === "POST") return this.store.create(path, request.body);
    if (request.method === "PUT") return this.store.replace(path, request.body);
    if (request.method === "PATCH") {
      return this.store.patch(path, request.body, request.contentType ?? "");
    }
    if (request.method === "DELETE") return this.store.delete(path);
    throw new StoreError(405, "MethodNotAllowed", `no ${request.method} here`);
  }

  #watch({ query }: ApiRequest, collection: ObjectPath, outgoing: ServerResponse): void {
    const watcher: Watcher = {
      collection,
      outgoing,
      fieldSelector: query.get("fieldSelector"),
      labelSelector: query.get("labelSelector"),
      bookmarks: query.get("allowWatchBookmarks") === "true",
    };
    const missed = this.store.changesSince(Number(query.get("resourceVersion") ?? 0));
    outgoing.writeHead(200, { "content-type": "application/json" }).flushHeaders();
    for (const { type, path, object } of missed) {
      if (concerns(watcher, path, object)) writeEvent(outgoing, type, object);
    }
    this.#watchers.add(watcher);
    outgoing.on("close", () => this.#watchers.delete(watcher));
  }
}

function concerns(watcher: Watcher, path: ObjectPath, object: KubernetesObject): boolean {
  const { collection, fieldSelector, labelSelector } = watcher;
  return (
    collection.group === path.group &&
    collection.resource === path.resource &&
    (collection.namespace === undefined || collection.namespace === path.namespace) &&
    matches(object, fieldSelector, labelSelector)
  );
}

function selected(object: KubernetesObject, query: URLSearchParams): boolean {
  return matches(object, query.get("fieldSelector"), query.get("labelSelector"));
}

/** `metadata.name=…` and labels by presence or `key=value`; no more is needed so far. */
function matches(object: KubernetesObject, fields: string | null, labels: string | null): boolean {
  const field = (fields ?? "").split(",").filter(Boolean);
  const label = (labels ?? "").split(",").filter(Boolean);
  const name = object.metadata.name;
  return (
    field.every((term) => term === `metadata.name=${name}`) &&
    label.every((term) => {
      const [key = "", value] = term.split(/==?/);
      const found = object.metadata.labels?.[key];
      return value === undefined ? found !== undefined : found === value;
    })
  );
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function writeEvent(outgoing: ServerResponse, type: string, object: unknown): void {
  outgoing.write(`${JSON.stringify({ type, object })}\n`);
}

function send(outgoing: ServerResponse, body: unknown, status = 200): void {
  outgoing.writeHead(status, { "content-type": "application/json" });
  outgoing.end(JSON.stringify(body));
}

function refuse(outgoing: ServerResponse, error: unknown): void {
  const known =
    error instanceof StoreError ? error : new StoreError(500, "InternalError", String(error));
  const { status: code, reason, message } = known;
  send(outgoing, { kind: "Status", status: "Failure", code, reason, message }, code);
}
