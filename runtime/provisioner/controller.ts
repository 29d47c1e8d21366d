import { once } from "node:events";
import type { KubernetesClient } from "../common/kubernetes/client.ts";
import {
  type WatchedCollection,
  watchCollection,
} from "../common/kubernetes/watched-collection.ts";
import { type Deployment, deployment, keyOf } from "./agent-request.ts";
import { describe } from "./failure.ts";
import { deploymentsPath } from "./kubernetes.ts";
import { agentKey, GRAPH_ID_LABEL } from "./names.ts";
import { provision, type ReconcileDeps, Refusal } from "./reconcile.ts";
import type { AgentId } from "./registry-records.ts";
import { withdraw } from "./revoke.ts";
import { olderRival } from "./rivals.ts";
import { WorkQueue } from "./work-queue.ts";

export interface ControllerDeps extends ReconcileDeps {
  client: KubernetesClient;
  /** Where agents live. */
  namespaces: readonly string[];
  /** How often everything is looked at again without an occasion, in ms. */
  resyncMs: number;
  /** Calls back when the cache came back, which forgets its users when it restarts. */
  onCacheBack: (listener: () => void, signal: AbortSignal) => void;
  /** The first pause after a failure, in ms, and the longest one. */
  backoffMs: [number, number];
}

const CONCURRENCY = 4;
/** How long an older Deployment that asks for the same is waited for at a time. */
const RIVAL_MS = 250;
/** The piece of work that asks for work on every agent. No agent's key is like that. */
const EVERYTHING = "*";

/** Watches the agents' Deployments and keeps each agent as its own asks for. */
export class Controller {
  readonly #deps: ControllerDeps;
  readonly #queue: WorkQueue;
  readonly #collections = new Map<string, WatchedCollection<Deployment>>();
  /** The resource version of each Deployment that work was asked for. */
  readonly #seen = new Map<string, string>();
  /** Deployments that ask for what they can't have. */
  readonly #refused = new Set<string>();

  constructor(deps: ControllerDeps) {
    this.#deps = deps;
    this.#queue = new WorkQueue({
      work: (key) => (key === EVERYTHING ? this.#everything() : this.#one(key)),
      concurrency: CONCURRENCY,
      backoffMs: deps.backoffMs,
      onFailure: (agent, error) => {
        const told = { agent, error: describe(error) };
        deps.logger.warn(told, "an agent could not be brought up to date");
      },
    });
  }

  /** True once all namespaces are known. */
  get isSynced(): boolean {
    const { namespaces } = this.#deps;
    return namespaces.every((name) => {
      const state = this.#collections.get(name)?.state;
      return state !== undefined && state !== "unknown";
    });
  }

  /** Works until the signal, and ends what is under way. */
  async run(signal: AbortSignal): Promise<void> {
    const { namespaces, resyncMs, onCacheBack } = this.#deps;
    for (const namespace of namespaces) this.#watch(namespace);
    onCacheBack(() => this.#queue.add(EVERYTHING), signal);
    const timer = setInterval(() => this.#queue.add(EVERYTHING), resyncMs);
    if (!signal.aborted) await once(signal, "abort");
    clearInterval(timer);
    for (const collection of this.#collections.values()) collection.stop();
    await this.#queue.stop();
  }

  #watch(namespace: string): void {
    let isKnown = false;
    const collection: WatchedCollection<Deployment> = watchCollection({
      client: this.#deps.client,
      path: deploymentsPath(namespace),
      labelSelector: GRAPH_ID_LABEL,
      schema: deployment,
      logger: this.#deps.logger,
      onChange: () => {
        if (collection.state === "unknown") return;
        this.#compare(namespace, collection.objects);
        if (!isKnown) this.#queue.add(EVERYTHING);
        isKnown = true;
      },
    });
    this.#collections.set(namespace, collection);
  }

  /** Asks for work on what was added, changed or vanished in a namespace. */
  #compare(namespace: string, objects: ReadonlyMap<string, Deployment>): void {
    for (const [key, { metadata }] of objects) {
      if (this.#seen.get(key) === metadata.resourceVersion) continue;
      this.#seen.set(key, metadata.resourceVersion);
      this.#queue.add(key);
    }
    for (const key of this.#seen.keys()) {
      if (idOf(key).namespace !== namespace || objects.has(key)) continue;
      this.#seen.delete(key);
      this.#queue.add(key);
    }
  }

  /** Asks for work on every agent that there is, or was when somebody last looked. */
  async #everything(): Promise<undefined> {
    for (const key of this.#seen.keys()) this.#queue.add(key);
    for (const { namespace, release } of await this.#deps.registry.agents()) {
      this.#queue.add(agentKey(namespace, release));
    }
  }

  async #one(key: string): Promise<number | undefined> {
    const id = idOf(key);
    const collection = this.#collections.get(id.namespace);
    // Of a namespace that is not watched, or not known yet, nothing can be said.
    if (collection === undefined || collection.state === "unknown") return undefined;
    const found = collection.objects.get(key) ?? (await this.#lookAgain(id));
    if (found === undefined || found.metadata.deletionTimestamp !== undefined) {
      return this.#withdraw(key, id);
    }
    return (await this.#hasToWait(found)) ? RIVAL_MS : this.#provision(key, found);
  }

  /** A copy of the collection is not enough to withdraw access by. */
  async #lookAgain(id: AgentId): Promise<Deployment | undefined> {
    const found = await this.#deps.cluster.deployment(id);
    return found?.metadata.labels[GRAPH_ID_LABEL] === undefined ? undefined : found;
  }

  /** True while an older Deployment that asks for the same has not had its turn. */
  async #hasToWait(found: Deployment): Promise<boolean> {
    const all = [...this.#collections.values()].flatMap(({ objects }) => [...objects.values()]);
    const rival = olderRival(
      found,
      all.filter((other) => !this.#refused.has(keyOf(other))),
    );
    return (
      rival !== undefined && (await this.#deps.registry.find(idOf(keyOf(rival)))) === undefined
    );
  }

  async #withdraw(key: string, id: AgentId): Promise<number | undefined> {
    const againMs = await withdraw(id, this.#deps);
    this.#refused.delete(key);
    // What it held may be free now.
    if (againMs === undefined) for (const other of this.#refused) this.#queue.add(other);
    return againMs;
  }

  async #provision(key: string, found: Deployment): Promise<number | undefined> {
    try {
      const againMs = await provision(found, this.#deps);
      this.#refused.delete(key);
      return againMs;
    } catch (error) {
      await this.#deps.events.failed(found, `${describe(error)}.`);
      if (!(error instanceof Refusal)) throw error;
      this.#refused.add(key);
      return undefined;
    }
  }
}

function idOf(key: string): AgentId {
  const [namespace = "", release = ""] = key.split("/");
  return { namespace, release };
}
