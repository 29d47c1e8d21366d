import * as k8s from "@pulumi/kubernetes";
import type * as pulumi from "@pulumi/pulumi";
import { objectMetadata, selector } from "./workload.ts";

/**
 * Lets at most one pod of a component be away at a time. Not `minAvailable`, and pods that are not
 * well may always go: a drain gets through where there is one replica, or one that never started.
 */
export function disruptionBudget(
  name: string,
  place: { release: string; namespace: pulumi.Input<string> },
  component: string,
  child: pulumi.CustomResourceOptions,
): k8s.policy.v1.PodDisruptionBudget {
  return new k8s.policy.v1.PodDisruptionBudget(
    name,
    {
      metadata: objectMetadata(place, component),
      spec: {
        maxUnavailable: 1,
        unhealthyPodEvictionPolicy: "AlwaysAllow",
        selector: { matchLabels: selector(place.release, component) },
      },
    },
    child,
  );
}
