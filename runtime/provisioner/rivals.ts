import { type Deployment, keyOf, readAgentRequest } from "./agent-request.ts";

/**
 * The oldest other Deployment that asks for the same graph id or prefix and is older than this one.
 * Of two that come at once, the older is to be served.
 */
export function olderRival(of: Deployment, among: Iterable<Deployment>): Deployment | undefined {
  const own = readAgentRequest(of);
  if ("refused" in own) return undefined;
  let oldest: Deployment | undefined;
  for (const other of among) {
    if (keyOf(other) === keyOf(of) || other.metadata.deletionTimestamp !== undefined) continue;
    const asks = readAgentRequest(other);
    if ("refused" in asks) continue;
    if (asks.graphId !== own.graphId && asks.redisPrefix !== own.redisPrefix) continue;
    if (isOlder(other, oldest ?? of)) oldest = other;
  }
  return oldest;
}

function isOlder(a: Deployment, b: Deployment): boolean {
  const [ageA, ageB] = [a, b].map(({ metadata }) => metadata.creationTimestamp.getTime());
  if (ageA === undefined || ageB === undefined || ageA === ageB) return keyOf(a) < keyOf(b);
  return ageA < ageB;
}
