import { refersTo } from "./attachment.ts";
import { conditionOf, mergeConditions, sameConditions } from "./conditions.ts";
import type { ResolvedRoute } from "./resolve.ts";
import {
  CONTROLLER_NAME,
  type GatewayName,
  type HttpRoute,
  type ParentRef,
  type RouteParentStatus,
} from "./resources.ts";

/**
 * `status.parents` of a route as it should be: an entry of ours for each reference to our Gateway,
 * and other controllers' as they are. Undefined where it is so already.
 */
export function routeParents(
  { route, attachments, backends }: ResolvedRoute,
  gateway: GatewayName,
  now: string,
): RouteParentStatus[] | undefined {
  const { generation } = route.metadata;
  const isOurs = (entry: RouteParentStatus) =>
    entry.controllerName === CONTROLLER_NAME &&
    refersTo(entry.parentRef, route.metadata.namespace, gateway);
  const before = route.status.parents.filter(isOurs);
  const ours = attachments.map(({ parentRef, verdict }): RouteParentStatus => {
    const previous = before.find((entry) => sameRef(entry.parentRef, parentRef, route));
    return {
      parentRef,
      controllerName: CONTROLLER_NAME,
      conditions: mergeConditions(
        previous?.conditions ?? [],
        [
          conditionOf("Accepted", verdict, generation),
          conditionOf("ResolvedRefs", backends, generation),
        ],
        now,
      ),
    };
  });
  const isSame =
    before.length === ours.length &&
    ours.every((entry) => {
      const previous = before.find(({ parentRef }) => sameRef(parentRef, entry.parentRef, route));
      return previous !== undefined && sameConditions(previous.conditions, entry.conditions);
    });
  return isSame ? undefined : [...route.status.parents.filter((entry) => !isOurs(entry)), ...ours];
}

function sameRef(one: ParentRef, other: ParentRef, { metadata }: HttpRoute): boolean {
  const key = ({ group, kind, namespace, name, sectionName, port }: ParentRef) =>
    JSON.stringify([group, kind, namespace ?? metadata.namespace, name, sectionName, port]);
  return key(one) === key(other);
}
