import { hostsInCommon } from "./hostnames.ts";
import {
  GATEWAY_API_GROUP,
  type Gateway,
  type GatewayName,
  type HttpRoute,
  type Listener,
  type ParentRef,
  type Verdict,
} from "./resources.ts";

/** What becomes of one of a route's references to our Gateway. */
export interface Attachment {
  parentRef: ParentRef;
  verdict: Verdict;
  /** Names of the listeners that let the route in. */
  listeners: string[];
  /** For which hosts they do. */
  hosts: string[];
}

export const ACCEPTED: Verdict = {
  ok: true,
  reason: "Accepted",
  message: "The platform's gateway takes the route.",
};

/** True where a reference of a route in `namespace` means this Gateway. */
export function refersTo(
  ref: Pick<ParentRef, "group" | "kind" | "namespace" | "name">,
  namespace: string,
  gateway: GatewayName,
): boolean {
  return (
    ref.group === GATEWAY_API_GROUP &&
    ref.kind === "Gateway" &&
    ref.name === gateway.name &&
    (ref.namespace ?? namespace) === gateway.namespace
  );
}

/** Looks at each of a route's references to our Gateway. */
export function attach(route: HttpRoute, gateway: Gateway): Attachment[] {
  const { namespace } = route.metadata;
  return route.spec.parentRefs
    .filter((ref) => refersTo(ref, namespace, gateway.metadata))
    .map((parentRef) => attachOne(route, parentRef, gateway));
}

function attachOne(route: HttpRoute, parentRef: ParentRef, gateway: Gateway): Attachment {
  const { sectionName, port } = parentRef;
  const refused = (reason: string, message: string): Attachment => ({
    parentRef,
    verdict: { ok: false, reason, message },
    listeners: [],
    hosts: [],
  });
  const named = gateway.spec.listeners.filter(
    (listener) =>
      (sectionName === undefined || listener.name === sectionName) &&
      (port === undefined || listener.port === port),
  );
  if (named.length === 0) {
    const names = gateway.spec.listeners.map(({ name }) => name).join(", ");
    return refused(
      "NoMatchingParent",
      `The Gateway has no such listener; it has ${names === "" ? "none" : names}.`,
    );
  }
  const open = named.filter((listener) => isOpen(listener, route, gateway));
  if (open.length === 0) {
    return refused(
      "NotAllowedByListeners",
      `No listener of the Gateway takes HTTPRoutes of the namespace ${route.metadata.namespace}. It may take those of All namespaces or of the Same one; a Selector is not supported.`,
    );
  }
  const shared = open
    .map(({ name, hostname }) => ({ name, hosts: hostsInCommon(hostname, route.spec.hostnames) }))
    .filter(({ hosts }) => hosts.length > 0);
  if (shared.length === 0) {
    return refused(
      "NoMatchingListenerHostname",
      `No listener of the Gateway is for ${route.spec.hostnames.join(", ")}.`,
    );
  }
  return {
    parentRef,
    verdict: ACCEPTED,
    listeners: shared.map(({ name }) => name),
    hosts: [...new Set(shared.flatMap(({ hosts }) => hosts))],
  };
}

function isOpen(listener: Listener, route: HttpRoute, gateway: Gateway): boolean {
  const { from } = listener.allowedRoutes.namespaces;
  const sameNamespace = route.metadata.namespace === gateway.metadata.namespace;
  return (
    servesHttp(listener) &&
    takesHttpRoutes(listener) &&
    (from === "All" || (from === "Same" && sameNamespace))
  );
}

/** TLS ends in front of the gateway, if anywhere. */
export function servesHttp({ protocol }: Listener): boolean {
  return protocol === "HTTP";
}

export function isHttpRouteKind({ group, kind }: { group: string; kind: string }): boolean {
  return group === GATEWAY_API_GROUP && kind === "HTTPRoute";
}

export function takesHttpRoutes({ allowedRoutes: { kinds } }: Listener): boolean {
  return kinds.length === 0 || kinds.some(isHttpRouteKind);
}
