import type { KubernetesApi, KubernetesObject } from "./kubernetes-api.ts";

/** What a test says of an agent's Deployment. */
export interface TestDeployment {
  namespace?: string;
  graphId?: string;
  annotations?: Record<string, string>;
  /** An RFC 3339 time. */
  createdAt?: string;
  uid?: string;
}

/** Agents' Deployments at a stand-in API server, as the chart makes them. */
export class AgentDeployments {
  readonly #api: KubernetesApi;

  constructor(api: KubernetesApi) {
    this.#api = api;
  }

  /** Applies the Deployment; no grace, so that a test of a removal has nothing to wait for. */
  apply(name: string, options: TestDeployment = {}): KubernetesObject {
    const { namespace = "default", graphId = name, annotations = {}, createdAt, uid } = options;
    return this.#api.store.apply(deployments(namespace), {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: {
        name,
        namespace,
        labels: { "platform.dev/graph-id": graphId },
        annotations,
        ...(createdAt !== undefined && { creationTimestamp: createdAt }),
        ...(uid !== undefined && { uid }),
      },
      spec: { replicas: 1, template: { spec: { terminationGracePeriodSeconds: 0 } } },
    });
  }

  /** As `kubectl annotate` does. */
  annotate(name: string, annotations: Record<string, string>, namespace = "default"): void {
    const path = this.#api.store.pathOf(`${deployments(namespace)}/${name}`);
    this.#api.store.patch(path, { metadata: { annotations } }, "application/merge-patch+json");
  }

  remove(name: string, namespace = "default"): void {
    this.#api.store.remove(`${deployments(namespace)}/${name}`);
    const secret = `/api/v1/namespaces/${namespace}/secrets/${name}-credentials`;
    // As the garbage collector does.
    if (this.#api.store.find(secret) !== undefined) this.#api.store.remove(secret);
  }

  /** What the pod template was annotated with, so that the Deployment rolls. */
  rollout(name: string, namespace = "default"): string | undefined {
    const deployment = this.#api.store.find(`${deployments(namespace)}/${name}`);
    const template = at(at(deployment, "spec"), "template");
    const annotations = at(at(template, "metadata"), "annotations");
    const value = at(annotations, "platform.dev/credentials-checksum");
    return typeof value === "string" ? value : undefined;
  }

  /** The Deployment controller's word that all pods are of the newest template. */
  finishRollout(name: string, namespace = "default"): void {
    const path = this.#api.store.pathOf(`${deployments(namespace)}/${name}/status`);
    const { generation } = this.#api.store.get({ ...path, subresource: undefined }).metadata;
    const counts = { replicas: 1, updatedReplicas: 1, availableReplicas: 1 };
    const patch = { status: { observedGeneration: generation, ...counts } };
    this.#api.store.patch(path, patch, "application/merge-patch+json");
  }

  /** The environment that the Secret gives to the agent; undefined while there is none. */
  environment(name: string, namespace = "default"): Record<string, string> | undefined {
    const secret = this.#api.store.find(
      `/api/v1/namespaces/${namespace}/secrets/${name}-credentials`,
    );
    const data = at(secret, "data");
    if (data === undefined || data === null) return undefined;
    return Object.fromEntries(
      Object.entries(data).map(([key, value]) => [
        key,
        Buffer.from(String(value), "base64").toString("utf8"),
      ]),
    );
  }

  /** Reasons and messages of the Deployment's events, oldest first. */
  events(name: string, namespace = "default"): { reason: unknown; message: unknown }[] {
    const collection = this.#api.store.pathOf(`/api/v1/namespaces/${namespace}/events`);
    return this.#api.store
      .list(collection)
      .items.filter((event) => at(at(event, "involvedObject"), "name") === name)
      .map((event) => ({ reason: at(event, "reason"), message: at(event, "message") }));
  }
}

function deployments(namespace: string): string {
  return `/apis/apps/v1/namespaces/${namespace}/deployments`;
}

function at(value: unknown, key: string): unknown {
  return value !== null && typeof value === "object"
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}
