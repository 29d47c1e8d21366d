import { expect } from "chai";
import { gatewayRules } from "../../runtime/gateway/rbac.ts";
import {
  CLASS_PATH,
  type Cluster,
  type ClusterDoor,
  GATEWAY_PATH,
  openClusterDoor,
  startCluster,
} from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import type { ApiRequest } from "../support/kubernetes-api.ts";

const OTHER_CONTROLLER = {
  parentRef: { group: "gateway.networking.k8s.io", kind: "Gateway", name: "theirs" },
  controllerName: "elsewhere.example/controller",
  conditions: [
    {
      type: "Accepted",
      status: "True",
      reason: "Accepted",
      message: "",
      observedGeneration: 1,
      lastTransitionTime: "2026-01-01T00:00:00Z",
    },
  ],
};

describe("what a route's status says", () => {
  let cluster: Cluster;
  let door: ClusterDoor;

  beforeEach(async () => {
    cluster = await startCluster();
    cluster.applyService("agent");
    door = await openClusterDoor(cluster.api.url, {});
    await door.synced;
  });
  afterEach(async () => {
    await door.stop();
    await cluster.api.stop();
  });

  it("a route that is served is Accepted with its backends resolved, by our controller", async () => {
    cluster.applyRoute("agent");
    await cluster.reason("ResolvedRefs", "ResolvedRefs", "agent");
    const [entry, ...others] = cluster.parentsOf("agent");
    expect(others).to.deep.equal([]);
    expect(entry?.controllerName).to.equal("platform.dev/gateway");
    expect(entry?.parentRef).to.deep.equal({
      group: "gateway.networking.k8s.io",
      kind: "Gateway",
      name: "platform",
      namespace: "platform",
    });
    expect(entry?.conditions.map(({ type, status }) => [type, status])).to.deep.equal([
      ["Accepted", "True"],
      ["ResolvedRefs", "True"],
    ]);
  });

  it("a changed route is looked at again; its times stay where its conditions do", async () => {
    const created = "2026-01-01T00:00:00Z";
    const entry = {
      parentRef: { name: "platform", namespace: "platform" },
      controllerName: "platform.dev/gateway",
      conditions: ["Accepted", "ResolvedRefs"].map((type) => ({
        type,
        status: "True",
        reason: type,
        message: "as it was",
        observedGeneration: 1,
        lastTransitionTime: created,
      })),
    };
    cluster.applyRoute("agent", { status: { parents: [entry] } });
    cluster.applyRoute("agent", { backend: { name: "missing" } });
    await eventually(
      "the new generation was seen",
      () => cluster.conditionOf("Accepted", "agent")?.observedGeneration === 2,
    );
    const accepted = cluster.conditionOf("Accepted", "agent");
    const resolved = cluster.conditionOf("ResolvedRefs", "agent");
    expect(accepted).to.include({ status: "True", lastTransitionTime: created });
    expect(resolved).to.include({ status: "False", reason: "BackendNotFound" });
    expect(resolved?.lastTransitionTime).not.to.equal(created);
    expect(resolved?.message).to.equal("There is no Service default/missing.");
  });

  it("of two routes for one graph the older is served; the other names it, and follows it", async () => {
    cluster.applyRoute("agent", { graphIds: ["shared"], created: "2026-01-02T00:00:00Z" });
    await cluster.reason("Accepted", "Accepted", "agent");
    cluster.applyService("older", "team");
    cluster.applyRoute("older", { graphIds: ["shared"], created: "2026-01-01T00:00:00Z" }, "team");
    await cluster.reason("Accepted", "GraphIdConflict", "agent");
    expect(cluster.conditionOf("Accepted", "agent")?.status).to.equal("False");
    expect(cluster.conditionOf("Accepted", "agent")?.message)
      .to.contain('"shared"')
      .and.contain("team/older");
    await cluster.reason("Accepted", "Accepted", "older", "team");
    cluster.store.remove(cluster.routePath("older", "team"));
    await cluster.reason("Accepted", "Accepted", "agent");
  });

  it("other controllers' entries stay as they are, and ours goes with the reference", async () => {
    cluster.applyRoute("agent", { status: { parents: [OTHER_CONTROLLER] } });
    await cluster.reason("ResolvedRefs", "ResolvedRefs", "agent");
    expect(cluster.parentsOf("agent")[0]).to.deep.equal(OTHER_CONTROLLER);
    cluster.applyRoute("agent", { parentRef: { name: "theirs", namespace: "default" } });
    await eventually("ours is gone", () => cluster.parentsOf("agent").length === 1);
    expect(cluster.parentsOf("agent")).to.deep.equal([OTHER_CONTROLLER]);
  });

  it("a Service of another namespace needs a grant there", async () => {
    cluster.applyService("shared", "team");
    cluster.applyRoute("agent", { backend: { name: "shared", namespace: "team" } });
    await cluster.reason("ResolvedRefs", "RefNotPermitted", "agent");
    cluster.applyGrant("team", "elsewhere");
    cluster.applyGrant("team", "default");
    await cluster.reason("ResolvedRefs", "ResolvedRefs", "agent");
  });

  it("the Gateway and its class say that they are served, where, and by how many routes", async () => {
    cluster.applyService("platform-gateway", "platform", {
      selector: { "app.kubernetes.io/name": "gateway" },
      clusterIP: "10.96.0.42",
    });
    cluster.applyRoute("agent");
    const gateway = () => JSON.stringify(cluster.store.find(GATEWAY_PATH)?.status ?? {});
    await eventually("the Gateway counts the route", () =>
      gateway().includes('"attachedRoutes":1'),
    );
    await eventually("the Gateway has its address", () =>
      gateway().includes('[{"type":"IPAddress","value":"10.96.0.42"}]'),
    );
    expect(gateway()).to.contain('"type":"Programmed","status":"True"');
    await eventually("the class is accepted", () =>
      JSON.stringify(cluster.store.find(CLASS_PATH)?.status ?? {}).includes(
        '"type":"Accepted","status":"True"',
      ),
    );
  });

  it("a listener for anything but HTTP says so", async () => {
    cluster.applyGateway({ protocol: "HTTPS" });
    cluster.applyRoute("agent");
    await cluster.reason("Accepted", "NotAllowedByListeners", "agent");
    await eventually("the listener says why", () =>
      JSON.stringify(cluster.store.find(GATEWAY_PATH)?.status ?? {}).includes(
        "UnsupportedProtocol",
      ),
    );
  });

  it("all of it needs no more rights than the role gives", async () => {
    cluster.applyRoute("agent");
    await cluster.reason("ResolvedRefs", "ResolvedRefs", "agent");
    await eventually("the Gateway's status is there", () => {
      return cluster.store.find(GATEWAY_PATH)?.status !== undefined;
    });
    const denied = cluster.api.requests.filter((request) => !isAllowed(request));
    expect(denied.map(({ method, path }) => `${method} ${path}`)).to.deep.equal([]);
  });
});

/** What the API server's RBAC would say of a request, by the role of the gateway. */
function isAllowed({ method, path, query }: ApiRequest): boolean {
  const [, root, ...rest] = path.split("/");
  const group = root === "apis" ? rest.shift() : "";
  rest.shift();
  if (rest[0] === "namespaces") rest.splice(0, 2);
  const [plural, , subresource] = rest;
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
  const reading = query.get("watch") === "true" ? "watch" : "list";
  const verb = method === "GET" ? reading : method.toLowerCase();
  return gatewayRules().some(
    ({ apiGroups, resources, verbs }) =>
      apiGroups.includes(group ?? "") && resources.includes(resource ?? "") && verbs.includes(verb),
  );
}
