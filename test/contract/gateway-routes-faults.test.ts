import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { request } from "undici";
import {
  type Cluster,
  type ClusterDoor,
  openClusterDoor,
  startCluster,
} from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import { type Listening, startUpstream } from "../support/gateway.ts";

const WATCHES = 5;

describe("routes while the API server fails", () => {
  let cluster: Cluster;
  let worker: Listening;
  const doors: ClusterDoor[] = [];

  async function openDoor(tokenFile?: string): Promise<ClusterDoor> {
    const workers = { first: worker.url, second: worker.url };
    const options = tokenFile === undefined ? {} : { tokenFile };
    const door = await openClusterDoor(cluster.api.url, workers, options);
    doors.push(door);
    return door;
  }

  before(async () => {
    worker = await startUpstream((_, outgoing) => outgoing.end("here"));
  });
  after(() => worker.stop());
  beforeEach(async () => {
    cluster = await startCluster();
    cluster.applyService("first");
    cluster.applyService("second");
    cluster.applyRoute("first");
  });
  afterEach(async () => {
    await Promise.all(doors.splice(0).map((door) => door.stop()));
    await cluster.api.stop();
  });

  it("the gateway is not ready before it knows all routes", async () => {
    let isShut = true;
    cluster.api.intercept = ({ path }, outgoing) => {
      if (!isShut || !path.endsWith("/httproutes")) return false;
      outgoing.writeHead(503).end("no");
      return true;
    };
    const door = await openDoor();
    const readiness = async () => (await request(new URL("/ready", door.url))).statusCode;
    await eventually("the list was refused", () =>
      door.log.lines.some((line) => String(line.path).endsWith("/httproutes")),
    );
    expect(await readiness()).to.equal(503);
    isShut = false;
    await door.synced;
    expect(await readiness()).to.equal(200);
    expect((await door.call("first")).status).to.equal(200);
  });

  it("the last known routes stay in force while it is away, and changes count once it is back", async () => {
    const door = await openDoor();
    await door.synced;
    const port = Number(cluster.api.url.port);
    await cluster.api.stop();
    await eventually("the watches have broken", () =>
      door.log.lines.some((line) => String(line.msg).includes("stays in force")),
    );
    expect((await door.call("first")).status).to.equal(200);
    cluster.store.remove(cluster.routePath("first"));
    cluster.applyRoute("second");
    expect((await door.call("first")).status).to.equal(200);
    await cluster.api.start(port);
    await eventually("the change is in force", async () => {
      const [gone, come] = [await door.call("first"), await door.call("second")];
      return gone.status === 404 && come.status === 200;
    });
    await cluster.reason("Accepted", "Accepted", "second");
  });

  it("a resource version that is too old makes it list anew", async () => {
    const door = await openDoor();
    await door.synced;
    await eventually("all watches are open", () => cluster.api.watchers() === WATCHES);
    cluster.store.compact();
    cluster.api.expireWatches();
    cluster.store.remove(cluster.routePath("first"));
    cluster.applyRoute("second");
    await eventually("the change is in force", async () => {
      const [gone, come] = [await door.call("first"), await door.call("second")];
      return gone.status === 404 && come.status === 200;
    });
  });

  it("a watch that breaks off misses nothing", async () => {
    const door = await openDoor();
    await door.synced;
    await eventually("all watches are open", () => cluster.api.watchers() === WATCHES);
    cluster.api.disconnect();
    cluster.applyRoute("second");
    await eventually("the route is there", async () => (await door.call("second")).status === 200);
    await eventually("all watches are open", () => cluster.api.watchers() === WATCHES);
  });

  it("an object that nobody can read does not hide the others", async () => {
    cluster.store.apply("/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes", {
      metadata: { name: "broken" },
      spec: { rules: "none" },
    });
    const door = await openDoor();
    await door.synced;
    expect((await door.call("first")).status).to.equal(200);
    expect(door.log.lines.some((line) => line.msg === "an object is not readable")).to.equal(true);
  });

  it("a token that the kubelet replaced is used at once", async () => {
    const directory = await mkdtemp(join(tmpdir(), "gateway-token-"));
    const file = join(directory, "token");
    await writeFile(file, "old\n");
    const door = await openDoor(file);
    await door.synced;
    await eventually("all watches are open", () => cluster.api.watchers() === WATCHES);
    await writeFile(file, "new\n");
    cluster.api.requests.splice(0);
    cluster.api.disconnect();
    await eventually("all watches are open", () => cluster.api.watchers() === WATCHES);
    const tokens = new Set(cluster.api.requests.map(({ authorization }) => authorization));
    expect([...tokens]).to.deep.equal(["Bearer new"]);
    await rm(directory, { recursive: true });
  });

  it("two gateways agree, and neither writes what the other has written", async () => {
    const [one, other] = [await openDoor(), await openDoor()];
    await Promise.all([one.synced, other.synced]);
    cluster.applyRoute("second");
    await cluster.reason("Accepted", "Accepted", "first");
    await cluster.reason("Accepted", "Accepted", "second");
    await quiet(cluster);
    const versions = () =>
      ["first", "second"].map(
        (name) => cluster.store.find(cluster.routePath(name))?.metadata.resourceVersion,
      );
    const before = versions();
    const accepted = cluster.conditionOf("Accepted", "first");
    // Anything that makes both of them look again.
    for (let turn = 0; turn < 5; turn++) {
      cluster.applyService("unrelated", "default", { clusterIP: `10.96.1.${turn}` });
      await one.call("first");
    }
    await quiet(cluster);
    expect(versions()).to.deep.equal(before);
    expect(cluster.conditionOf("Accepted", "first")).to.deep.equal(accepted);
    for (const door of [one, other]) expect((await door.call("second")).status).to.equal(200);
  });
});

/** Waits until no status has been written for longer than a gateway waits before it writes. */
async function quiet(cluster: Cluster): Promise<void> {
  let seen = -1;
  let since = Date.now();
  await eventually("nothing is written any more", () => {
    const { length } = cluster.api.writes();
    if (length !== seen) {
      seen = length;
      since = Date.now();
    }
    return Date.now() - since > 400;
  });
}
