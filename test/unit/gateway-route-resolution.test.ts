import { expect } from "chai";
import {
  hostMatches,
  hostsInCommon,
  hostsOverlap,
} from "../../runtime/gateway/kubernetes-routes/hostnames.ts";
import { resolve } from "../../runtime/gateway/kubernetes-routes/resolve.ts";
import {
  type Gateway,
  gateway,
  gatewayClass,
  httpRoute,
  type Snapshot,
  service,
} from "../../runtime/gateway/kubernetes-routes/resources.ts";
import { type RouteSketch, routeManifest } from "../support/cluster.ts";

const meta = (name: string, namespace: string) => ({ name, namespace, resourceVersion: "1" });

/** A route of the namespace `default`, as the API server would give it. */
function route(name: string, sketch: RouteSketch = {}, namespace = "default") {
  const manifest = routeManifest(name, { backend: { name: "agent" }, ...sketch });
  return httpRoute.parse({
    ...manifest,
    metadata: { ...manifest.metadata, namespace, resourceVersion: "1" },
  });
}

function gatewayWith(...listeners: object[]): Gateway {
  const standard = {
    name: "http",
    port: 8080,
    protocol: "HTTP",
    allowedRoutes: { namespaces: { from: "All" } },
  };
  return gateway.parse({
    metadata: meta("platform", "platform"),
    spec: {
      gatewayClassName: "platform",
      listeners: listeners.map((listener) => ({ ...standard, ...listener })),
    },
  });
}

function snapshot(routes: Snapshot["routes"], changes: Partial<Snapshot> = {}): Snapshot {
  const agent = service.parse({
    metadata: meta("agent", "default"),
    spec: { ports: [{ port: 8000 }] },
  });
  return {
    ours: { name: "platform", namespace: "platform" },
    gatewayClass: gatewayClass.parse({
      metadata: { ...meta("platform", ""), namespace: undefined },
      spec: { controllerName: "platform.dev/gateway" },
    }),
    gateway: gatewayWith({}),
    services: new Map([["default/agent", agent]]),
    grants: [],
    routes,
    ...changes,
  };
}

/** Why each reference of a route was accepted or not. */
function reasonsOf(name: string, of: Snapshot): string[] {
  const found = resolve(of).routes.find((resolved) => resolved.route.metadata.name === name);
  return (found?.attachments ?? []).map(({ verdict }) => verdict.reason);
}

function messageOf(sketch: RouteSketch): string {
  const [resolved] = resolve(snapshot([route("agent", sketch)])).routes;
  return resolved?.attachments[0]?.verdict.message ?? "";
}

describe("who serves a graph", () => {
  it("is the oldest route, then the first by namespace and name", () => {
    const created = "2026-01-01T00:00:00Z";
    const later = "2026-01-02T00:00:00Z";
    const routes = [
      route("young", { graphIds: ["g"], created: later }),
      route("b", { graphIds: ["g"], created }),
      route("a", { graphIds: ["g"], created }),
      route("z", { graphIds: ["g"], created }, "a-team"),
    ];
    for (const order of [routes, [...routes].reverse()]) {
      const { claims } = resolve(snapshot(order));
      expect(claims.map(({ owner }) => owner)).to.deep.equal(["a-team/z"]);
    }
  });

  it("is one route a host: the same graph on other hosts is another matter", () => {
    const routes = [
      route("one", { graphIds: ["g"], hostnames: ["one.example"] }),
      route("two", { graphIds: ["g"], hostnames: ["two.example"] }),
      route("wild", { graphIds: ["g"], hostnames: ["*.example"] }),
      route("every", { graphIds: ["g"], hostnames: [] }),
    ];
    const all = snapshot(routes);
    expect(reasonsOf("one", all)).to.deep.equal(["GraphIdConflict"]);
    expect(reasonsOf("every", all)).to.deep.equal(["Accepted"]);
    const exact = snapshot(routes.slice(0, 2));
    expect(resolve(exact).claims).to.have.length(2);
  });

  it("is not a refused route: what it also claimed is free for others", () => {
    const of = snapshot([
      route("a", { graphIds: ["x"] }),
      route("b", { graphIds: ["x", "y"] }),
      route("c", { graphIds: ["y"] }),
    ]);
    expect(reasonsOf("b", of)).to.deep.equal(["GraphIdConflict"]);
    expect(reasonsOf("c", of)).to.deep.equal(["Accepted"]);
  });

  it("keeps a graph whose Service is away, for which nobody else may answer", () => {
    const { claims } = resolve(
      snapshot([
        route("a", { graphIds: ["x"], backend: { name: "gone" } }),
        route("b", { graphIds: ["x"] }),
      ]),
    );
    expect(claims).to.have.length(1);
    expect(claims[0]).to.include({ owner: "default/a", address: undefined });
  });
});

describe("a route that can't be served as it is written", () => {
  const get = { method: "GET" };
  const wrong: [string, RouteSketch, string][] = [
    ["no match at all", { rule: { matches: [] } }, "spec.rules[0].matches is empty"],
    ["a match of everything", { rule: { matches: [{}] } }, "matches every call"],
    ["a path", { match: { path: { type: "PathPrefix", value: "/v1" } } }, ".path is not supported"],
    ["a method", { match: get }, ".method is not supported"],
    ["filters", { rule: { filters: [{ type: "URLRewrite" }] } }, ".filters are not supported"],
    ["timeouts", { rule: { timeouts: { request: "1s" } } }, ".timeouts is not supported"],
    ["two backends", { rule: { backendRefs: [{ name: "a" }, { name: "b" }] } }, "exactly one"],
    ["no backend", { rule: { backendRefs: [] } }, "exactly one Service"],
    ["a backend without weight", { backend: { weight: 0 } }, "weight is 0"],
    [
      "another header",
      { match: { headers: [{ type: "Exact", name: "X-Other", value: "a" }] } },
      'matches "X-Other"',
    ],
    [
      "a pattern",
      { match: { headers: [{ type: "RegularExpression", name: "x-graph-id", value: ".*" }] } },
      "type RegularExpression",
    ],
    [
      "two headers",
      {
        match: {
          headers: [
            { name: "X-Graph-ID", value: "a" },
            { name: "X-Beta", value: "1" },
          ],
        },
      },
      "more than one term",
    ],
  ];
  for (const [name, sketch, message] of wrong) {
    it(`${name} is refused with a sentence`, () => {
      expect(reasonsOf("agent", snapshot([route("agent", sketch)]))).to.deep.equal([
        "UnsupportedValue",
      ]);
      expect(messageOf(sketch)).to.contain(message);
    });
  }
});

describe("a route's reference to the Gateway", () => {
  it("to a listener that is not there, or a port, is NoMatchingParent", () => {
    for (const parentRef of [{ sectionName: "https" }, { port: 443 }]) {
      const of = snapshot([route("agent", { parentRef })]);
      expect(reasonsOf("agent", of)).to.deep.equal(["NoMatchingParent"]);
    }
  });

  it("from a namespace that no listener takes is NotAllowedByListeners", () => {
    for (const from of ["Same", "Selector"]) {
      const closed = gatewayWith({ allowedRoutes: { namespaces: { from } } });
      const of = snapshot([route("agent")], { gateway: closed });
      expect(reasonsOf("agent", of)).to.deep.equal(["NotAllowedByListeners"]);
    }
  });

  it("for hosts that no listener is for is NoMatchingListenerHostname", () => {
    const own = gatewayWith({ hostname: "*.example" });
    const of = snapshot([route("agent")], { gateway: own });
    expect(reasonsOf("agent", of)).to.deep.equal(["NoMatchingListenerHostname"]);
  });

  it("gets the hosts that both it and the listener are for", () => {
    const own = gatewayWith({ hostname: "*.example" });
    const routes = [route("agent", { hostnames: ["a.example", "b.other"] }), route("all")];
    const { claims } = resolve(snapshot(routes, { gateway: own }));
    expect(claims.map(({ hosts }) => hosts)).to.deep.equal([["a.example"]]);
  });

  it("of another kind, group or name is not ours", () => {
    for (const parentRef of [
      { kind: "Service", group: "" },
      { name: "other" },
      { namespace: undefined },
    ]) {
      expect(reasonsOf("agent", snapshot([route("agent", { parentRef })]))).to.deep.equal([]);
    }
  });

  it("counts for nothing where the Gateway's class is another controller's", () => {
    const theirs = gatewayClass.parse({
      metadata: { name: "platform", resourceVersion: "1" },
      spec: { controllerName: "elsewhere.example/controller" },
    });
    const { claims, gateway: managed } = resolve(
      snapshot([route("agent")], { gatewayClass: theirs }),
    );
    expect(claims).to.deep.equal([]);
    expect(managed).to.equal(undefined);
  });
});

describe("host names of routes", () => {
  it("a wildcard means every name below it, and not itself", () => {
    expect(hostMatches("*.example", "a.b.example")).to.equal(true);
    expect(hostMatches("*.example", "example")).to.equal(false);
    expect(hostMatches("*.example", "badexample")).to.equal(false);
  });

  it("two patterns overlap where some host is meant by both", () => {
    expect(hostsOverlap("*.example", "a.example")).to.equal(true);
    expect(hostsOverlap("*.a.example", "*.example")).to.equal(true);
    expect(hostsOverlap("*", "*.example")).to.equal(true);
    expect(hostsOverlap("a.example", "b.example")).to.equal(false);
    expect(hostsOverlap("*.a.example", "*.b.example")).to.equal(false);
  });

  it("what two have in common is the narrower of them", () => {
    expect(hostsInCommon(undefined, [])).to.deep.equal(["*"]);
    expect(hostsInCommon("*.example", [])).to.deep.equal(["*.example"]);
    expect(hostsInCommon("a.example", ["*.example", "b.example"])).to.deep.equal(["a.example"]);
  });
});
