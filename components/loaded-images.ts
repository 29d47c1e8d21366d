import * as pulumi from "@pulumi/pulumi";
import type { KindCluster } from "./kind-cluster.ts";

/** Images in the node of a kind cluster, brought there through the local Docker in one go. */
export class LoadedImages extends pulumi.CustomResource {
  constructor(
    name: string,
    args: { cluster: KindCluster; images: pulumi.Input<string>[] },
    opts?: pulumi.CustomResourceOptions,
  ) {
    super(
      "kindlocal:index:LoadedImages",
      name,
      { clusterName: args.cluster.name, nodeId: args.cluster.nodeId, images: args.images },
      { ...opts, deletedWith: args.cluster },
    );
  }
}
