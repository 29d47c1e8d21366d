import { join } from "node:path";
import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import {
  type Artifact,
  type ArtifactName,
  artifacts,
  IMAGES,
  type ImageName,
} from "./artifacts.ts";
import { GATEWAY_NODE_PORT, KindCluster } from "./kind-cluster.ts";
import { LoadedImages } from "./loaded-images.ts";
import { nodeReference } from "./node-reference.ts";
import type { StackConfiguration } from "./stack-configuration.ts";

/** The cluster that a stack installs into: one of its own, or one that is there. */
export interface TargetCluster {
  provider: k8s.Provider;
  /** Set where the cluster is ours. */
  kind?: KindCluster;
  /** Options of a single resource in the cluster; what lies in one of ours goes with it. */
  resource(): pulumi.CustomResourceOptions;
  /** The same for a component. A new object each time, since Pulumi writes into it. */
  component(): pulumi.ComponentResourceOptions;
  nodePort?: number;
  kubeconfigPath?: string;
  /** Where our images are pushed; undefined: they go into the node of our own cluster. */
  registry: string | undefined;
  /** Brings images to the nodes and says by which reference pods get each. */
  deliver(images: Record<string, pulumi.Input<string>>): (name: string) => pulumi.Input<string>;
}

/** Makes or finds the cluster. `dataDirectory` is `.platform` of the checkout. */
export function targetCluster(
  configuration: StackConfiguration,
  dataDirectory: string,
): TargetCluster {
  return configuration.cluster === "kind"
    ? kindTarget(configuration, dataDirectory)
    : existingTarget(configuration);
}

/** A file's place and checksum, after what the stack overrides. */
export function artifact(configuration: StackConfiguration, name: ArtifactName): Artifact {
  const found = configuration.artifacts[name] ?? artifacts(process.arch)[name];
  if (found !== undefined) return found;
  throw new Error(
    `There is no ${name} for processors of this kind (${process.arch}): name one in platform:artifacts.`,
  );
}

export function imageOf(configuration: StackConfiguration, name: ImageName): string {
  return configuration.images[name] ?? IMAGES[name];
}

/** What runs in the cluster and is not ours. */
export function thirdPartyImages(configuration: StackConfiguration): Record<string, string> {
  const names = ["postgres", "valkey", "phoenix"] as const;
  return Object.fromEntries(names.map((name) => [name, imageOf(configuration, name)]));
}

function kindTarget(configuration: StackConfiguration, dataDirectory: string): TargetCluster {
  const kubeconfigPath = join(dataDirectory, `kubeconfig-${configuration.clusterName}`);
  const kind = new KindCluster("cluster", {
    clusterName: configuration.clusterName,
    nodeImage: imageOf(configuration, "node"),
    hostPort: configuration.hostPort,
    kubeconfigPath,
  });
  const provider = new k8s.Provider("cluster", {
    kubeconfig: kind.kubeconfig,
    // Another node is another cluster: all in it is to be made anew.
    clusterIdentifier: kind.nodeId,
    // A cluster deleted by hand takes its objects out of the state.
    deleteUnreachable: true,
    // What an interrupted update made but could not note down is taken over.
    upsertExistingObjects: true,
  });
  return {
    provider,
    kind,
    resource: () => ({ provider, deletedWith: kind }),
    component: () => ({ providers: [provider], deletedWith: kind }),
    nodePort: GATEWAY_NODE_PORT,
    kubeconfigPath,
    registry: undefined,
    deliver: (images) => intoNode(kind, images),
  };
}

function existingTarget(configuration: StackConfiguration): TargetCluster {
  const { kubeContext, kubeconfig, registry } = configuration;
  const provider = new k8s.Provider("cluster", {
    ...(kubeContext !== undefined && { context: kubeContext }),
    // It may be the file's content.
    ...(kubeconfig !== undefined && { kubeconfig: pulumi.secret(kubeconfig) }),
  });
  return {
    provider,
    resource: () => ({ provider }),
    component: () => ({ providers: [provider] }),
    registry,
    // Nodes pull for themselves.
    deliver: (images) => (name) => known(images, name),
  };
}

/** Loads all images at once: they share layers. Pods wait for that, since references come of it. */
function intoNode(cluster: KindCluster, images: Record<string, pulumi.Input<string>>) {
  const loaded = new LoadedImages("images", { cluster, images: Object.values(images) });
  return (name: string) =>
    pulumi.all([known(images, name), loaded.id]).apply(([image]) => nodeReference(image));
}

function known(images: Record<string, pulumi.Input<string>>, name: string): pulumi.Input<string> {
  const image = images[name];
  if (image === undefined) throw new Error(`No image ${name} was delivered to the cluster.`);
  return image;
}
