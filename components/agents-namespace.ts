import * as k8s from "@pulumi/kubernetes";
import { restrictedNamespaceLabels } from "./platform-release.ts";
import type { StackConfiguration } from "./stack-configuration.ts";
import type { TargetCluster } from "./target-cluster.ts";

/**
 * The agents' namespace, with Pod Security `restricted` enforced in it. On a cluster of our own one that
 * Kubernetes does not bring is made; on another it has to be there, since others may use it too.
 */
export function agentsNamespaceOf(
  { agentsNamespace }: StackConfiguration,
  cluster: TargetCluster,
): k8s.core.v1.Namespace | k8s.core.v1.NamespacePatch {
  const args = { metadata: { name: agentsNamespace, labels: restrictedNamespaceLabels() } };
  const isMade = cluster.kind !== undefined && agentsNamespace !== "default";
  return isMade
    ? new k8s.core.v1.Namespace("agents", args, cluster.resource())
    : new k8s.core.v1.NamespacePatch("agents", args, cluster.resource());
}
