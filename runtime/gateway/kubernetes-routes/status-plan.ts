import { gatewayClassStatus, gatewayStatus } from "./gateway-status.ts";
import type { Resolution } from "./resolve.ts";
import { CONTROLLER_NAME, GATEWAY_API_GROUP, type Snapshot } from "./resources.ts";
import { routeParents } from "./route-status.ts";

/** A status that has to be written. */
export interface StatusWrite {
  /** Path of the status subresource. */
  path: string;
  /** The object as it was when this was found: a later one makes the write void. */
  resourceVersion: string;
  status: object;
}

const BASE = `/apis/${GATEWAY_API_GROUP}/v1`;

/**
 * What must be written so that the API tells the truth. Nothing, where it does already.
 *
 * @param now RFC 3339.
 */
export function planStatuses(
  snapshot: Snapshot,
  resolution: Resolution,
  now: string,
): StatusWrite[] {
  const writes: StatusWrite[] = [];
  const { gatewayClass } = snapshot;
  if (gatewayClass?.spec.controllerName === CONTROLLER_NAME) {
    const { name, resourceVersion } = gatewayClass.metadata;
    const status = gatewayClassStatus(gatewayClass, now);
    const path = `${BASE}/gatewayclasses/${name}/status`;
    if (status !== undefined) writes.push({ path, resourceVersion, status });
  }
  const { gateway } = resolution;
  if (gateway !== undefined) {
    const { name, namespace, resourceVersion } = gateway.metadata;
    const status = gatewayStatus(gateway, resolution, snapshot, now);
    const path = `${BASE}/namespaces/${namespace}/gateways/${name}/status`;
    if (status !== undefined) writes.push({ path, resourceVersion, status });
  }
  for (const resolved of resolution.routes) {
    const { name, namespace, resourceVersion } = resolved.route.metadata;
    const parents = routeParents(resolved, snapshot.ours, now);
    const path = `${BASE}/namespaces/${namespace}/httproutes/${name}/status`;
    if (parents !== undefined) writes.push({ path, resourceVersion, status: { parents } });
  }
  return writes;
}
