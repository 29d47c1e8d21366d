/** Which worker serves a graph. */
export interface RouteTable {
  /** Scheme, host and port of the graph's worker, or undefined where there is none. */
  lookup(graphId: string): URL | undefined;
  graphIds(): string[];
}

/** The routes of one configuration. */
export function createStaticRoutes(
  routes: readonly { graphId: string; url: string }[],
): RouteTable {
  const table = new Map(routes.map(({ graphId, url }) => [graphId, new URL(url)]));
  return {
    lookup: (graphId) => table.get(graphId),
    graphIds: () => [...table.keys()].sort(),
  };
}
