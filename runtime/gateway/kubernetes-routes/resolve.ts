import { type Attachment, attach } from "./attachment.ts";
import { type BackendAddress, resolveBackend } from "./backends.ts";
import { type GraphRule, readGraphRules } from "./graph-rules.ts";
import { hostsOverlap } from "./hostnames.ts";
import {
  CONTROLLER_NAME,
  type Gateway,
  type HttpRoute,
  type Snapshot,
  type Verdict,
} from "./resources.ts";

/** One graph that a route serves, on the hosts it does so. */
export interface Claim {
  graphId: string;
  hosts: string[];
  /** `namespace/name` of the route. */
  owner: string;
  /** Where its calls go; undefined where the backend can't be had. */
  address: BackendAddress | undefined;
}

export interface ResolvedRoute {
  route: HttpRoute;
  /** None where the route is not, or no longer, ours. */
  attachments: Attachment[];
  backends: Verdict;
}

export interface Resolution {
  /** The Gateway, if it is there and of our class. */
  gateway: Gateway | undefined;
  claims: Claim[];
  routes: ResolvedRoute[];
}

const RESOLVED: Verdict = {
  ok: true,
  reason: "ResolvedRefs",
  message: "All backends are there.",
};

/**
 * Decides which route serves which graph. A pure function of what the API server says, so that all
 * replicas come to the same result.
 *
 * Who claims a graph id on a host first, keeps it: the oldest route by its creation, then by
 * namespace and name. A younger one is refused as a whole, and a refused route claims nothing.
 */
export function resolve(snapshot: Snapshot): Resolution {
  const gateway = managedGateway(snapshot);
  const claims = new Map<string, Claim[]>();
  const routes = [...snapshot.routes].sort(byAge).map((route): ResolvedRoute => {
    const backends = backendsOf(route, snapshot);
    if (gateway === undefined) return { route, attachments: [], backends };
    const attachments = attach(route, gateway);
    const hosts = [...new Set(attachments.flatMap((attachment) => attachment.hosts))];
    if (hosts.length === 0) return { route, attachments, backends };
    const refusal = claim(claims, route, hosts, snapshot);
    return {
      route,
      attachments: refusal === undefined ? attachments : attachments.map(refusedBy(refusal)),
      backends,
    };
  });
  return { gateway, routes, claims: [...claims.values()].flat() };
}

/** A Gateway belongs to whom its class names as its controller. */
function managedGateway({ gateway, gatewayClass }: Snapshot): Gateway | undefined {
  const isOurs =
    gatewayClass?.spec.controllerName === CONTROLLER_NAME &&
    gateway?.spec.gatewayClassName === gatewayClass.metadata.name;
  return isOurs ? gateway : undefined;
}

/** @returns why the route may not have what it claims. */
function claim(
  claims: Map<string, Claim[]>,
  route: HttpRoute,
  hosts: string[],
  snapshot: Snapshot,
): Verdict | undefined {
  const reading = readGraphRules(route);
  if ("unsupported" in reading) {
    return { ok: false, reason: "UnsupportedValue", message: reading.unsupported };
  }
  const { rules } = reading;
  for (const graphId of rules.flatMap((rule) => rule.graphIds)) {
    const rival = claims
      .get(graphId)
      ?.find((held) => held.hosts.some((host) => hosts.some((own) => hostsOverlap(host, own))));
    if (rival !== undefined) return conflict(graphId, rival);
  }
  for (const own of claimsOf(rules, route, hosts, snapshot)) {
    claims.set(own.graphId, [...(claims.get(own.graphId) ?? []), own]);
  }
  return undefined;
}

function conflict(graphId: string, rival: Claim): Verdict {
  return {
    ok: false,
    reason: "GraphIdConflict",
    message: `The graph id ${JSON.stringify(graphId)} is served by the HTTPRoute ${rival.owner}, which is older. Use another graph id or host, or remove that route.`,
  };
}

/** Where rules of one route name a graph twice, the first counts. */
function claimsOf(rules: GraphRule[], route: HttpRoute, hosts: string[], snapshot: Snapshot) {
  const { namespace, name } = route.metadata;
  const own = new Map<string, Claim>();
  for (const { graphIds, backend } of rules) {
    const found = resolveBackend(backend, namespace, snapshot);
    const address = "address" in found ? found.address : undefined;
    for (const graphId of graphIds) {
      if (own.has(graphId)) continue;
      own.set(graphId, { graphId, hosts, owner: `${namespace}/${name}`, address });
    }
  }
  return own.values();
}

function refusedBy(refusal: Verdict): (attachment: Attachment) => Attachment {
  return (attachment) =>
    attachment.verdict.ok
      ? { ...attachment, verdict: refusal, listeners: [], hosts: [] }
      : attachment;
}

function backendsOf(route: HttpRoute, snapshot: Snapshot): Verdict {
  for (const rule of route.spec.rules) {
    for (const backend of rule.backendRefs) {
      const found = resolveBackend(backend, route.metadata.namespace, snapshot);
      if ("problem" in found) return found.problem;
    }
  }
  return RESOLVED;
}

function byAge(one: HttpRoute, other: HttpRoute): number {
  return compare(ageKey(one), ageKey(other));
}

/** Times of the API are RFC 3339 in UTC, so their order as texts is their order in time. */
function ageKey({ metadata }: HttpRoute): string {
  return `${metadata.creationTimestamp}\0${metadata.namespace}/${metadata.name}`;
}

/** Not by a locale: all replicas must agree. */
function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
