import { isHttpRouteKind, servesHttp, takesHttpRoutes } from "./attachment.ts";
import { conditionOf, mergeConditions, sameConditions } from "./conditions.ts";
import type { Resolution } from "./resolve.ts";
import {
  type Condition,
  GATEWAY_API_GROUP,
  type Gateway,
  type GatewayAddress,
  type GatewayClass,
  type Listener,
  type ListenerStatus,
  type Service,
  type Snapshot,
  type Verdict,
} from "./resources.ts";

/** The label by which a Service selects the pods of this program. */
const COMPONENT_LABEL = "app.kubernetes.io/name";
const COMPONENT = "gateway";

/** Undefined where the class says already what it should. */
export function gatewayClassStatus(
  { metadata, status }: GatewayClass,
  now: string,
): { conditions: Condition[] } | undefined {
  const accepted = yes("Accepted", "The platform's gateway serves Gateways of this class.");
  const desired = [conditionOf("Accepted", accepted, metadata.generation)];
  const conditions = mergeConditions(status.conditions, desired, now);
  return sameConditions(status.conditions, conditions) ? undefined : { conditions };
}

/** Undefined where the Gateway says already what it should. */
export function gatewayStatus(
  gateway: Gateway,
  resolution: Resolution,
  snapshot: Snapshot,
  now: string,
): Gateway["status"] | undefined {
  const { status, spec, metadata } = gateway;
  const { generation } = metadata;
  const served = spec.listeners.some((listener) => servesHttp(listener));
  const accepted = served
    ? yes("Accepted", "The Gateway is served.")
    : no("ListenersNotValid", "The Gateway has no listener for HTTP.");
  const programmed = served
    ? yes("Programmed", "Routes of this Gateway take effect as they change.")
    : no("Invalid", "The Gateway has no listener for HTTP.");
  const conditions = mergeConditions(
    status.conditions,
    [
      conditionOf("Accepted", accepted, generation),
      conditionOf("Programmed", programmed, generation),
    ],
    now,
  );
  const addresses = addressesOf(snapshot);
  const listeners = spec.listeners.map((listener) => {
    const before = status.listeners.find(({ name }) => name === listener.name);
    return listenerStatus(listener, before, attachedTo(listener, resolution), generation, now);
  });
  const isSame =
    sameConditions(status.conditions, conditions) &&
    JSON.stringify(status.addresses) === JSON.stringify(addresses) &&
    status.listeners.length === listeners.length &&
    listeners.every((listener, index) => sameListener(listener, status.listeners[index]));
  return isSame ? undefined : { addresses, conditions, listeners };
}

function listenerStatus(
  listener: Listener,
  before: ListenerStatus | undefined,
  attachedRoutes: number,
  generation: number,
  now: string,
): ListenerStatus {
  const served = servesHttp(listener);
  const accepted = served
    ? yes("Accepted", "The listener is served.")
    : no("UnsupportedProtocol", `The gateway serves HTTP, not ${listener.protocol}.`);
  const programmed = served
    ? yes("Programmed", "The listener is served.")
    : no("Invalid", `The gateway serves HTTP, not ${listener.protocol}.`);
  const kindsOk = listener.allowedRoutes.kinds.every(isHttpRouteKind);
  const resolved = kindsOk
    ? yes("ResolvedRefs", "All that the listener refers to is there.")
    : no("InvalidRouteKinds", "Only HTTPRoutes are served.");
  return {
    name: listener.name,
    attachedRoutes,
    supportedKinds: takesHttpRoutes(listener)
      ? [{ group: GATEWAY_API_GROUP, kind: "HTTPRoute" }]
      : [],
    conditions: mergeConditions(
      before?.conditions ?? [],
      [
        conditionOf("Accepted", accepted, generation),
        conditionOf("Programmed", programmed, generation),
        conditionOf("ResolvedRefs", resolved, generation),
      ],
      now,
    ),
  };
}

function sameListener(listener: ListenerStatus, before: ListenerStatus | undefined): boolean {
  return (
    before !== undefined &&
    before.name === listener.name &&
    before.attachedRoutes === listener.attachedRoutes &&
    before.supportedKinds.length === listener.supportedKinds.length &&
    sameConditions(before.conditions, listener.conditions)
  );
}

function attachedTo({ name }: Listener, { routes }: Resolution): number {
  return routes.filter(({ attachments }) =>
    attachments.some(({ listeners }) => listeners.includes(name)),
  ).length;
}

/** Where the gateway is reached: the Services in its namespace that lead to it. */
function addressesOf({ ours, services }: Snapshot): GatewayAddress[] {
  return [...services.values()]
    .filter(
      ({ metadata, spec }) =>
        metadata.namespace === ours.namespace && spec.selector[COMPONENT_LABEL] === COMPONENT,
    )
    .sort((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1))
    .flatMap(serviceAddresses);
}

function serviceAddresses({ spec, status }: Service): GatewayAddress[] {
  const outside = status.loadBalancer.ingress.flatMap(({ ip, hostname }): GatewayAddress[] => {
    if (ip !== undefined) return [{ type: "IPAddress", value: ip }];
    return hostname === undefined ? [] : [{ type: "Hostname", value: hostname }];
  });
  if (outside.length > 0) return outside;
  const { clusterIP } = spec;
  return clusterIP === "" || clusterIP === "None" ? [] : [{ type: "IPAddress", value: clusterIP }];
}

function yes(reason: string, message: string): Verdict {
  return { ok: true, reason, message };
}

function no(reason: string, message: string): Verdict {
  return { ok: false, reason, message };
}
