/** Where the calls for one graph go. */
export interface AgentRoute {
  /** Scheme, host and port of the worker; undefined where the route leads to nothing that is there. */
  upstream: URL | undefined;
}

/** Which worker serves a graph. */
export interface RouteTable {
  /**
   * @param host The host name that was asked, lower-case and without a port.
   * @returns undefined where nobody serves the graph on that host.
   */
  lookup(host: string, graphId: string): AgentRoute | undefined;
  /** Whether a route names this host as its own. */
  serves(host: string): boolean;
  /** All graphs that are served on some host, sorted. */
  graphIds(): string[];
}

/** The routes of one configuration, on whichever host agents are called. */
export function createStaticRoutes(
  routes: readonly { graphId: string; url: string }[],
): RouteTable {
  const table = new Map(
    routes.map(({ graphId, url }): [string, AgentRoute] => [graphId, { upstream: new URL(url) }]),
  );
  return {
    lookup: (_, graphId) => table.get(graphId),
    serves: () => false,
    graphIds: () => [...table.keys()].sort(),
  };
}
