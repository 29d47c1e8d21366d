import { randomUUID } from "node:crypto";
import { z } from "zod";

const metadata = z.looseObject({
  name: z.string(),
  namespace: z.string().optional(),
  uid: z.string().optional(),
  resourceVersion: z.string().optional(),
  generation: z.number().optional(),
  creationTimestamp: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
});
const kubernetesObject = z.looseObject({ metadata });

/** Any object of the API, as far as all of them are alike. */
export type KubernetesObject = z.infer<typeof kubernetesObject>;

/** Where an object or a collection lives. */
export interface ObjectPath {
  /** Group and version, e.g. `apps/v1`; `v1` for the core group. */
  group: string;
  namespace: string | undefined;
  resource: string;
  /** Absent for a collection. */
  name: string | undefined;
  subresource: string | undefined;
}

export interface Change {
  version: number;
  type: "ADDED" | "MODIFIED" | "DELETED";
  path: ObjectPath;
  object: KubernetesObject;
}

/** A refusal as the API server words it. */
export class StoreError extends Error {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string, message: string) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

/** What an API server keeps: objects with resource versions, and what changed since when. */
export class ObjectStore {
  readonly #objects = new Map<string, KubernetesObject>();
  #changes: Change[] = [];
  #version = 100;
  #oldest = 0;
  onChange:
    | ((type: Change["type"], path: ObjectPath, object: KubernetesObject) => void)
    | undefined;

  /** @throws StoreError 404 for a path that is no object's. */
  pathOf(path: string): ObjectPath {
    const parts =
      /^\/(?:api|apis\/([^/]+))\/(v[^/]+)(?:\/namespaces\/([^/]+)(?=\/))?\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(
        path,
      );
    if (parts === null) throw new StoreError(404, "NotFound", `nothing at ${path}`);
    const [, group, version = "", namespace, resource = "", name, subresource] = parts;
    return {
      group: group === undefined ? version : `${group}/${version}`,
      namespace,
      resource,
      name,
      subresource,
    };
  }

  /** Puts an object there as a user would with `kubectl apply`; a new spec is a new generation. */
  apply(collection: string, object: unknown): KubernetesObject {
    const given = kubernetesObject.parse(object);
    const path = { ...this.pathOf(collection), name: given.metadata.name };
    const before = this.#objects.get(keyOf(path));
    return before === undefined
      ? this.create(path, object)
      : this.replace(path, { ...given, status: given.status ?? before.status });
  }

  /** Deletes the object at a path. */
  remove(path: string): void {
    this.delete(this.pathOf(path));
  }

  get(path: ObjectPath): KubernetesObject {
    const object = this.#objects.get(keyOf(path));
    if (object === undefined) {
      throw new StoreError(404, "NotFound", `${path.resource} "${path.name}" not found`);
    }
    return object;
  }

  /** The object at a path such as `/api/v1/namespaces/a/secrets/b`, if it is there. */
  find(path: string): KubernetesObject | undefined {
    return this.#objects.get(keyOf(this.pathOf(path)));
  }

  list(path: ObjectPath) {
    const prefix = collectionKey(path);
    const items = [...this.#objects]
      .filter(([key]) => key.startsWith(prefix))
      .map(([, object]) => object);
    return { kind: "List", metadata: { resourceVersion: String(this.#version) }, items };
  }

  /** @throws StoreError 410 where that has been forgotten. */
  changesSince(version: number): Change[] {
    if (version < this.#oldest) {
      throw new StoreError(410, "Expired", "too old resource version");
    }
    return this.#changes.filter((change) => change.version > version);
  }

  /** Forgets what changed, as a server does that compacts or restarts. */
  compact(): void {
    this.#changes = [];
    this.#version += 1;
    this.#oldest = this.#version;
  }

  create(collection: ObjectPath, body: unknown): KubernetesObject {
    const given = kubernetesObject.parse(body);
    const path = { ...collection, name: given.metadata.name };
    if (this.#objects.has(keyOf(path))) {
      throw new StoreError(409, "AlreadyExists", `${path.resource} "${path.name}" already exists`);
    }
    return this.#keep("ADDED", path, {
      ...given,
      metadata: {
        creationTimestamp: new Date().toISOString().replace(/\.\d+/, ""),
        uid: randomUUID(),
        generation: 1,
        ...given.metadata,
        ...(path.namespace !== undefined && { namespace: path.namespace }),
      },
    });
  }

  replace(path: ObjectPath, body: unknown): KubernetesObject {
    const before = this.get(path);
    const given = kubernetesObject.parse(body);
    const { resourceVersion } = given.metadata;
    if (resourceVersion !== undefined && resourceVersion !== before.metadata.resourceVersion) {
      throw new StoreError(409, "Conflict", "the object has been modified");
    }
    const { uid, creationTimestamp, generation = 1, namespace } = before.metadata;
    const isNew = JSON.stringify(given.spec) !== JSON.stringify(before.spec);
    return this.#keep("MODIFIED", path, {
      ...given,
      metadata: {
        ...given.metadata,
        uid,
        creationTimestamp,
        generation: isNew ? generation + 1 : generation,
        ...(namespace !== undefined && { namespace }),
      },
    });
  }

  /** A JSON merge patch; an apply patch counts as one, and makes what is not there. */
  patch(path: ObjectPath, body: unknown, contentType: string): KubernetesObject {
    const before = this.#objects.get(keyOf(path));
    if (before === undefined && contentType.includes("apply-patch")) {
      return this.create(path, body);
    }
    const current = this.get(path);
    const merged = kubernetesObject.parse(merge(current, body));
    const { resourceVersion } = z
      .object({ metadata: z.object({ resourceVersion: z.string().optional() }).default({}) })
      .parse(body).metadata;
    if (resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion) {
      throw new StoreError(409, "Conflict", "the object has been modified");
    }
    const whole =
      path.subresource === "status"
        ? { ...current, status: merged.status }
        : { ...merged, status: current.status };
    const { resourceVersion: _, ...own } = whole.metadata;
    return this.replace(path, { ...whole, metadata: own });
  }

  delete(path: ObjectPath): KubernetesObject {
    const object = this.get(path);
    this.#objects.delete(keyOf(path));
    return this.#announce("DELETED", path, object);
  }

  #keep(type: Change["type"], path: ObjectPath, object: KubernetesObject): KubernetesObject {
    const kept = this.#announce(type, path, object);
    this.#objects.set(keyOf(path), kept);
    return kept;
  }

  #announce(type: Change["type"], path: ObjectPath, object: KubernetesObject): KubernetesObject {
    this.#version += 1;
    const versioned = {
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(this.#version) },
    };
    this.#changes.push({ version: this.#version, type, path, object: versioned });
    this.onChange?.(type, path, versioned);
    return versioned;
  }
}

function collectionKey({ group, resource, namespace }: ObjectPath): string {
  return `${group}|${resource}|${namespace === undefined ? "" : `${namespace}|`}`;
}

function keyOf(path: ObjectPath): string {
  return `${path.group}|${path.resource}|${path.namespace ?? ""}|${path.name}`;
}

/** RFC 7396. */
function merge(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merge(result[key], value);
  }
  return result;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
