import type { AgentRoute, RouteTable } from "../route-table.ts";
import type { BackendAddress } from "./backends.ts";
import { EVERY_HOST, hostMatches } from "./hostnames.ts";
import type { Claim } from "./resolve.ts";

/** The name by which the cluster's DNS knows a Service. */
export function serviceUrl({ namespace, name, port }: BackendAddress): URL {
  return new URL(`http://${name}.${namespace}.svc:${port}`);
}

/** A route table of claims, of which no two are for one graph on one host. */
export function createClaimTable(
  claims: readonly Claim[],
  urlOf: (address: BackendAddress) => URL,
): RouteTable {
  const byGraph = new Map<string, { hosts: string[]; route: AgentRoute }[]>();
  const named = new Set<string>();
  for (const { graphId, hosts, address } of claims) {
    const route = { upstream: address && urlOf(address) };
    byGraph.set(graphId, [...(byGraph.get(graphId) ?? []), { hosts, route }]);
    for (const host of hosts) if (host !== EVERY_HOST) named.add(host);
  }
  const graphIds = [...byGraph.keys()].sort();
  return {
    lookup: (host, graphId) =>
      byGraph.get(graphId)?.find(({ hosts }) => hosts.some((pattern) => hostMatches(pattern, host)))
        ?.route,
    serves: (host) => named.has(host) || [...named].some((pattern) => hostMatches(pattern, host)),
    graphIds: () => graphIds,
  };
}
