import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { expect } from "chai";
import {
  type Cluster,
  type ClusterDoor,
  openClusterDoor,
  startCluster,
} from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import { type Listening, startUpstream } from "../support/gateway.ts";
import { answerOf, send } from "../support/raw-http.ts";

describe("routes that follow a cluster", () => {
  let cluster: Cluster;
  let door: ClusterDoor;
  let blue: Listening;
  let green: Listening;
  let openStream: ServerResponse | undefined;

  before(async () => {
    blue = await startUpstream((incoming, outgoing) => {
      if (incoming.url !== "/runs/stream") return outgoing.end("blue");
      openStream = outgoing;
      outgoing.writeHead(200).write("first");
    });
    green = await startUpstream((_, outgoing) => outgoing.end("green"));
  });
  after(async () => {
    await blue.stop();
    await green.stop();
  });
  beforeEach(async () => {
    cluster = await startCluster();
    door = await openClusterDoor(cluster.api.url, { blue: blue.url, green: green.url });
    await door.synced;
    cluster.applyService("blue");
    cluster.applyService("green");
  });
  afterEach(async () => {
    await door.stop();
    await cluster.api.stop();
  });

  it("a route takes effect as it comes, changes and goes, and a stream in flight goes on", async () => {
    expect((await door.call("assistant")).status).to.equal(404);
    cluster.applyRoute("assistant", { backend: { name: "blue" } });
    await door.answers(200, "assistant");
    expect((await door.call("assistant")).text).to.equal("blue");
    const stream = await answerOf(send(door.url, "GET", "/runs/stream").end());
    await once(stream, "data");

    cluster.applyRoute("assistant", { backend: { name: "green" } });
    await eventually(
      "green answers",
      async () => (await door.call("assistant")).text === "green",
      1_000,
    );
    cluster.store.remove(cluster.routePath("assistant"));
    await door.answers(404, "assistant");

    const ended = once(stream, "end");
    const last = once(stream, "data");
    openStream?.end("last");
    expect(String((await last)[0])).to.equal("last");
    await ended;
    expect(stream.complete).to.equal(true);
  });

  it("a route is found by header and by query parameter", async () => {
    cluster.applyRoute("blue");
    await door.answers(200, "blue");
    const asked = send(door.url, "GET", "/info?graph_id=blue", { "x-graph-id": "" });
    expect((await answerOf(asked.end())).statusCode).to.equal(200);
  });

  it("a call without a token is a 401, whether the graph is served or not", async () => {
    cluster.applyRoute("blue");
    await door.answers(200, "blue");
    for (const graphId of ["blue", "nobody"]) {
      expect((await door.call(graphId, { authorization: "" })).status).to.equal(401);
    }
    const unknown = await door.call("nobody");
    expect(unknown.status).to.equal(404);
    expect(JSON.parse(unknown.text).error).to.equal("not_found");
  });

  it("a route whose Service is missing is a 503 until the Service is there", async () => {
    cluster.applyRoute("late", { backend: { name: "later" } });
    await door.answers(503, "late");
    expect(JSON.parse((await door.call("late")).text).message).to.contain("HTTPRoute");
    await cluster.reason("ResolvedRefs", "BackendNotFound", "late");
    cluster.applyService("later");
    // Nobody listens at that Service's address in this test.
    await door.answers(502, "late");
    await cluster.reason("ResolvedRefs", "ResolvedRefs", "late");
  });

  it("hosts that a route names are served, by wildcard too; others are a 421", async () => {
    cluster.applyRoute("blue", { hostnames: ["*.agents.example", "exact.example"] });
    for (const host of ["a.agents.example", "a.b.agents.example", "exact.example:8088"]) {
      await door.answers(200, "blue", { host });
    }
    for (const host of ["agents.example", "other.example"]) {
      expect((await door.call("blue", { host })).status, host).to.equal(421);
    }
    expect((await door.call("blue")).status).to.equal(404);
  });

  it("a route without hosts is served on the agents' host, not on a stranger's", async () => {
    cluster.applyRoute("blue", { hostnames: [] });
    await door.answers(200, "blue");
    await door.answers(200, "blue", { host: "localhost:8088" });
    expect((await door.call("blue", { host: "evil.example" })).status).to.equal(421);
  });

  it("a route can't take the host of another door", async () => {
    cluster.applyRoute("blue", { hostnames: ["mcp.localhost", "agents.localhost"] });
    await door.answers(200, "blue");
    expect((await door.call("blue", { host: "mcp.localhost" })).text).to.contain("not_installed");
  });

  it("routes end with their Gateway, and with a Gateway of another class", async () => {
    cluster.applyRoute("blue");
    await door.answers(200, "blue");
    cluster.store.remove("/apis/gateway.networking.k8s.io/v1/gatewayclasses/platform");
    await door.answers(404, "blue");
  });

  it("a Service that is named like a host elsewhere is not served", async () => {
    cluster.applyService("outside", "default", {
      type: "ExternalName",
      externalName: "metadata.example",
    });
    cluster.applyRoute("outside");
    await door.answers(503, "outside");
  });
});
