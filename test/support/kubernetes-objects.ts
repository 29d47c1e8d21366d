import type {
  KubernetesObject,
  V1NetworkPolicy,
  V1PodDisruptionBudget,
  V1PodTemplateSpec,
  V1Service,
} from "@kubernetes/client-node";
import { plain, type Registered } from "./pulumi-monitor.ts";

/** An object as the program describes it, with the fields that tests look at. */
export interface Described extends KubernetesObject {
  // biome-ignore lint/suspicious/noExplicitAny: each kind has a specification of its own
  spec?: any;
}

/** What the program puts into the cluster, but for charts and files, which the provider renders. */
export function kubernetesObjects(resources: Registered[]): Described[] {
  return resources
    .filter(({ type, custom }) => custom && type.startsWith("kubernetes:"))
    .map(({ inputs }) => plain(inputs) as Described)
    .filter(({ kind }) => kind !== undefined);
}

interface Kinds {
  NetworkPolicy: V1NetworkPolicy;
  PodDisruptionBudget: V1PodDisruptionBudget;
  Service: V1Service;
}

export function ofKind<Kind extends keyof Kinds>(all: Described[], kind: Kind): Kinds[Kind][] {
  return all.filter((object) => object.kind === kind) as Kinds[Kind][];
}

/** A set of pods that the program asks for. */
export interface Workload {
  kind: string;
  name: string;
  namespace: string;
  labels: Record<string, string>;
  /** Of the workload itself, not of its pods. */
  annotations: Record<string, string>;
  template: V1PodTemplateSpec;
}

export function workloads(all: Described[]): Workload[] {
  return all.flatMap(({ kind = "", metadata, spec }) =>
    spec?.template === undefined
      ? []
      : [
          {
            kind,
            name: metadata?.name ?? metadata?.labels?.["app.kubernetes.io/name"] ?? "",
            namespace: metadata?.namespace ?? "",
            labels: spec.template.metadata.labels,
            annotations: metadata?.annotations ?? {},
            template: spec.template,
          },
        ],
  );
}

/** Whether a selector that names labels takes pods with these. */
export function selects(
  wanted: Record<string, string> | undefined,
  labels: Record<string, string>,
): boolean {
  return Object.entries(wanted ?? {}).every(([key, value]) => labels[key] === value);
}
