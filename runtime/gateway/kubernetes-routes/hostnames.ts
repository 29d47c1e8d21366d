/*
 * Host names of listeners and routes: `agents.localhost` means itself, `*.localhost` every name
 * below it, and `*` (ours, for a route or listener that names none) every name there is.
 */

export const EVERY_HOST = "*";

/** Whether a host, lower-case and without a port, is meant by a pattern. */
export function hostMatches(pattern: string, host: string): boolean {
  if (pattern === EVERY_HOST) return true;
  return pattern.startsWith("*.") ? host.endsWith(pattern.slice(1)) : pattern === host;
}

/** Whether there is a host that both patterns mean. */
export function hostsOverlap(one: string, other: string): boolean {
  return narrower(one, other) !== undefined;
}

/** The hosts of a route that a listener lets in. */
export function hostsInCommon(
  listenerHost: string | undefined,
  routeHosts: readonly string[],
): string[] {
  const patterns = routeHosts.length === 0 ? [EVERY_HOST] : routeHosts;
  const common = patterns
    .map((pattern) => narrower(pattern, listenerHost ?? EVERY_HOST))
    .filter((pattern) => pattern !== undefined);
  return [...new Set(common)];
}

/** Of two patterns, the one whose hosts are all meant by the other, too. */
function narrower(one: string, other: string): string | undefined {
  if (includes(one, other)) return other;
  return includes(other, one) ? one : undefined;
}

function includes(wide: string, narrow: string): boolean {
  if (wide === EVERY_HOST || wide === narrow) return true;
  return wide.startsWith("*.") && narrow !== EVERY_HOST && narrow.endsWith(wide.slice(1));
}
