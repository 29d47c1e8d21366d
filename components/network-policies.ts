import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import type { Way } from "./egress.ts";
import { DNS_PORTS, type PlatformWays } from "./platform-ways.ts";
import { labels } from "./workload.ts";

type Policy = k8s.types.input.networking.v1.NetworkPolicySpec;
type Peer = k8s.types.input.networking.v1.NetworkPolicyPeer;
type Rule = {
  ports: [number, "TCP" | "UDP"][];
  peers?: Peer[];
  /** The one component that it leads to. */
  component?: string;
};

export interface NetworkPoliciesArgs {
  release: string;
  /** Where the platform is, and where the agents are. */
  namespace: pulumi.Input<string>;
  agentsNamespace: pulumi.Input<string>;
  ways: PlatformWays;
}

/** The API server's port behind its Service: strict CNIs look at the address after translation. */
const API_SERVER_PORT = 6443;

const pods = (component: string): Peer => ({
  podSelector: { matchLabels: { "app.kubernetes.io/name": component } },
});
const agentPods: Peer = {
  namespaceSelector: {},
  podSelector: { matchLabels: { "app.kubernetes.io/name": "agent" } },
};
const KUBE_DNS: Way = {
  to: [
    {
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
      podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
    },
  ],
  ports: DNS_PORTS,
};
const apiServer: Rule = { ports: [[API_SERVER_PORT, "TCP"]] };
const to = (component: string, port: number): Rule => ({
  ports: [[port, "TCP"]],
  peers: [pods(component)],
  component,
});

/** Who may talk to whom in the cluster, by component. What is not here is denied. */
const PATHS: Record<string, { ingress: Rule[]; egress: Rule[] }> = {
  gateway: {
    ingress: [{ ports: [[8080, "TCP"]] }],
    egress: [
      { ports: [[8000, "TCP"]], peers: [agentPods] },
      to("model-gateway", 8000),
      to("phoenix", 6006),
    ],
  },
  "model-gateway": {
    ingress: [{ ports: [[8000, "TCP"]], peers: [pods("gateway"), agentPods] }],
    egress: [to("postgres", 5432), to("phoenix", 6006)],
  },
  provisioner: {
    ingress: [],
    egress: [to("postgres", 5432), to("valkey", 6379), to("phoenix", 6006)],
  },
  postgres: {
    ingress: [
      {
        ports: [[5432, "TCP"]],
        peers: [pods("model-gateway"), pods("provisioner"), agentPods],
      },
    ],
    egress: [],
  },
  valkey: {
    ingress: [{ ports: [[6379, "TCP"]], peers: [pods("provisioner"), agentPods] }],
    egress: [],
  },
  phoenix: {
    ingress: [
      {
        ports: [[6006, "TCP"]],
        peers: [pods("gateway"), pods("model-gateway"), pods("provisioner")],
      },
    ],
    egress: [],
  },
};

/** Who may get to what beyond that, by component; `agent` is every agent's pod. */
const WAYS: Record<string, (ways: PlatformWays) => Way[]> = {
  gateway: ({ oidc }) => oidc,
  "model-gateway": ({ database, providers }) => [...database, ...providers],
  provisioner: ({ database, cache }) => [...database, ...cache],
  agent: ({ database, cache, dns }) => [...database, ...cache, ...(dns ? [dns] : [])],
};
/** Those that call others by name. */
const CALLERS = new Set(["gateway", "model-gateway", "provisioner"]);
/** Those that watch the API server. */
const WATCHERS = new Set(["gateway", "provisioner"]);

/** Denies everything in both namespaces, then allows the few paths of a release. */
export class NetworkPolicies extends pulumi.ComponentResource {
  constructor(name: string, args: NetworkPoliciesArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:network:NetworkPolicies", name, {}, opts);
    const policy = (role: string, namespace: pulumi.Input<string>, spec: Policy) =>
      new k8s.networking.v1.NetworkPolicy(
        `${name}-${role}`,
        {
          metadata: {
            name: `${args.release}-${role}`,
            namespace,
            labels: labels(args.release, "network-policies"),
          },
          spec,
        },
        { parent: this },
      );
    policy("deny-all", args.namespace, DENY_ALL);
    policy("deny-all-agents", args.agentsNamespace, DENY_ALL);
    for (const component of Object.keys(PATHS)) {
      if (isElsewhere(component, args.ways)) continue;
      policy(component, args.namespace, componentPolicy(component, args.ways));
    }
    const external = agentsPolicy(args.ways);
    if (external !== undefined) policy("external-servers", args.agentsNamespace, external);
    this.registerOutputs({});
  }
}

export const DENY_ALL: Policy = { podSelector: {}, policyTypes: ["Ingress", "Egress"] };

/** The policy of one component of the platform. */
export function componentPolicy(component: string, ways: PlatformWays): Policy {
  const paths = PATHS[component];
  if (paths === undefined) throw new Error(`No network paths are written down for ${component}.`);
  const watches = WATCHERS.has(component);
  const inside = paths.egress.filter((rule) => !isElsewhere(rule.component, ways));
  return {
    podSelector: { matchLabels: { "app.kubernetes.io/name": component } },
    policyTypes: ["Ingress", "Egress"],
    ingress: paths.ingress.map(({ ports, peers }) => ({
      ports: portList(ports),
      ...(peers && { from: peers }),
    })),
    egress: [
      ...(CALLERS.has(component) ? [ways.dns ?? KUBE_DNS] : []),
      ...[...inside, ...(watches && !ways.apiServer ? [apiServer] : [])].map(
        ({ ports, peers }) => ({ ports: portList(ports), ...(peers && { to: peers }) }),
      ),
      ...(watches && ways.apiServer ? [ways.apiServer] : []),
      ...(WAYS[component]?.(ways) ?? []),
    ],
  };
}

/** Whether somebody else runs it, so that no pod of ours is it. */
function isElsewhere(component: string | undefined, { database, cache }: PlatformWays): boolean {
  if (component === "postgres") return database.length > 0;
  return component === "valkey" && cache.length > 0;
}

/**
 * The agents' way to an external database and cache, and to name servers of a setting; undefined
 * without them: to the platform's own and to `kube-dns` each agent's chart has the way. For all agents
 * of the namespace, whoever installs them.
 */
export function agentsPolicy(ways: PlatformWays): Policy | undefined {
  const egress = WAYS.agent?.(ways) ?? [];
  if (egress.length === 0) return undefined;
  return {
    podSelector: {
      matchLabels: { "app.kubernetes.io/name": "agent", "app.kubernetes.io/part-of": "platform" },
    },
    policyTypes: ["Egress"],
    egress,
  };
}

function portList(ports: [number, string][]) {
  return ports.map(([port, protocol]) => ({ port, protocol }));
}
