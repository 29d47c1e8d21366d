import type { AccessRule } from "../common/kubernetes/access-rule.ts";

/**
 * What the provisioner may do in each namespace of agents (a Role there, no ClusterRole). It may not
 * list Secrets: it reads those whose names it knows.
 */
export function provisionerRules(): AccessRule[] {
  return [
    {
      apiGroups: ["apps"],
      resources: ["deployments"],
      verbs: ["get", "list", "watch", "patch"],
    },
    { apiGroups: [""], resources: ["secrets"], verbs: ["get", "create", "update"] },
    { apiGroups: [""], resources: ["events"], verbs: ["create"] },
  ];
}
