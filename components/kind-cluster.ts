import { createHash } from "node:crypto";
import * as pulumi from "@pulumi/pulumi";

/** The node port that the cluster maps to the host port: the gateway's. */
export const GATEWAY_NODE_PORT = 30_088;

export interface KindClusterArgs {
  /** kind's name for it; the context is `kind-<name>`. */
  clusterName: string;
  nodeImage: string;
  /** The port of this machine that leads to the gateway, on loopback only. */
  hostPort: number;
  /** Where our kubeconfig goes; the user's own is never touched. */
  kubeconfigPath: string;
}

/**
 * A kind cluster of one node as a Pulumi resource: made, noticed when it is gone, deleted. Another
 * one in its place, and one that is there already, are refused: docs/decisions/0010.
 */
export class KindCluster extends pulumi.CustomResource {
  declare readonly kubeconfig: pulumi.Output<string>;
  declare readonly name: pulumi.Output<string>;
  /** The id of the node's container: changes when the cluster is made anew. */
  declare readonly nodeId: pulumi.Output<string>;

  constructor(name: string, args: KindClusterArgs, opts?: pulumi.CustomResourceOptions) {
    const config = kindConfig(args);
    super(
      "kindlocal:index:Cluster",
      name,
      {
        name: args.clusterName,
        nodeImage: args.nodeImage,
        hostPort: args.hostPort,
        kubeconfigPath: args.kubeconfigPath,
        config: config.yaml,
        configHash: config.hash,
        kubeconfig: undefined,
        nodeId: undefined,
      },
      { ...opts, additionalSecretOutputs: ["kubeconfig"] },
    );
  }
}

/**
 * kind's configuration. containerd learns of gVisor here, so that it need not be restarted later;
 * the names are those of version 2, which `KIND_RELEASE` writes: with version 3's the whole table of
 * runtimes would be dropped.
 */
export function kindConfig({ hostPort }: Pick<KindClusterArgs, "hostPort">): {
  yaml: string;
  hash: string;
} {
  const node = {
    role: "control-plane",
    extraPortMappings: [
      { containerPort: GATEWAY_NODE_PORT, hostPort, listenAddress: "127.0.0.1", protocol: "TCP" },
    ],
  };
  const config = {
    kind: "Cluster",
    apiVersion: "kind.x-k8s.io/v1alpha4",
    nodes: [node],
    containerdConfigPatches: [CONTAINERD_PATCH],
  };
  const hash = createHash("sha256").update(JSON.stringify(config)).digest("hex").slice(0, 40);
  const labelled = { ...node, labels: { "platform.dev/config-hash": hash } };
  // JSON is YAML.
  return { yaml: JSON.stringify({ ...config, nodes: [labelled] }, null, 2), hash };
}

const CONTAINERD_PATCH = `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc]
  runtime_type = "io.containerd.runsc.v1"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc.options]
    TypeUrl = "io.containerd.runsc.v1.options"
    ConfigPath = "/etc/containerd/runsc.toml"
`;
