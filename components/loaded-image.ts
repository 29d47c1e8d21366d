import * as pulumi from "@pulumi/pulumi";
import type { KindCluster } from "./kind-cluster.ts";

/** An image in the node of a kind cluster, brought there through the local Docker. */
export class LoadedImage extends pulumi.CustomResource {
  /** What pods have to say to get exactly this image. */
  declare readonly reference: pulumi.Output<string>;

  constructor(
    name: string,
    args: { cluster: KindCluster; image: pulumi.Input<string> },
    opts?: pulumi.CustomResourceOptions,
  ) {
    super(
      "kindlocal:index:LoadedImage",
      name,
      {
        clusterName: args.cluster.name,
        nodeId: args.cluster.nodeId,
        image: args.image,
        reference: undefined,
      },
      { ...opts, deletedWith: args.cluster },
    );
  }
}
