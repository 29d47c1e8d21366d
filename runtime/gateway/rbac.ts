import type { AccessRule } from "../common/kubernetes/access-rule.ts";

const GATEWAY_API = "gateway.networking.k8s.io";

/**
 * What the gateway may do at the API server: see routes and what they refer to, in all namespaces,
 * and say how it took them. It can neither read a Secret nor change a route.
 */
export function gatewayRules(): AccessRule[] {
  return [
    {
      apiGroups: [GATEWAY_API],
      resources: ["gatewayclasses", "gateways", "httproutes", "referencegrants"],
      verbs: ["list", "watch"],
    },
    {
      apiGroups: [GATEWAY_API],
      resources: ["gatewayclasses/status", "gateways/status", "httproutes/status"],
      verbs: ["patch"],
    },
    { apiGroups: [""], resources: ["services"], verbs: ["list", "watch"] },
  ];
}
