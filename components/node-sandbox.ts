import * as pulumi from "@pulumi/pulumi";
import type { Artifact } from "./artifacts.ts";
import type { KindCluster } from "./kind-cluster.ts";

/** gVisor's binaries on the node of a kind cluster. */
export class NodeSandbox extends pulumi.CustomResource {
  constructor(
    name: string,
    args: { cluster: KindCluster; archive: Artifact; cacheDirectory: string },
    opts?: pulumi.CustomResourceOptions,
  ) {
    super(
      "kindlocal:index:Sandbox",
      name,
      {
        clusterName: args.cluster.name,
        nodeId: args.cluster.nodeId,
        archive: args.archive.location,
        sha512: args.archive.checksum,
        cacheDirectory: args.cacheDirectory,
      },
      { ...opts, deletedWith: args.cluster },
    );
  }
}
