import * as k8s from "@pulumi/kubernetes";
import { fetchArtifact } from "./kind-provider/artifact.ts";
import type { StackConfiguration } from "./stack-configuration.ts";
import { artifact, type TargetCluster } from "./target-cluster.ts";

/**
 * Gateway API's resource definitions, from the pinned release file; undefined where the cluster has them.
 * On a cluster that is not ours they stay when the stack goes: routes of others may depend on them.
 */
export async function gatewayApiDefinitions(
  configuration: StackConfiguration,
  cluster: TargetCluster,
  cacheDirectory: string,
): Promise<k8s.yaml.v2.ConfigFile | undefined> {
  if (configuration.gatewayApi === "present") return undefined;
  const { location, checksum } = artifact(configuration, "gatewayApi");
  const file = await fetchArtifact(location, checksum, cacheDirectory);
  const retainOnDelete = cluster.kind === undefined;
  return new k8s.yaml.v2.ConfigFile(
    "gateway-api",
    { file },
    { ...cluster.resource(), retainOnDelete },
  );
}
