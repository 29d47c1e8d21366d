import { once } from "node:events";
import { access, mkdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { expect } from "chai";
import { type ClusterInputs, cluster, makeWay } from "../../components/kind-provider/cluster.ts";
import { KindLocalProvider } from "../../components/kind-provider/provider.ts";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { failureOf } from "../support/failure.ts";
import { type FakeTools, fakeTools, type Machine } from "../support/fake-tools.ts";

const URN = "urn:pulumi:local::platform::kindlocal:index:Cluster::cluster";
const provider = new KindLocalProvider();

describe("a kind cluster of a stack", () => {
  let tools: FakeTools;
  let wanted: ClusterInputs;
  const made = async () => (await tools.calls()).filter((call) => call.startsWith("kind create"));
  const create = () => provider.create(URN, { ...wanted });
  const isThere = (path: string) =>
    access(path).then(
      () => true,
      () => false,
    );
  const machine = (about: Machine) => tools.set(about);

  before(async () => {
    tools = await fakeTools();
    wanted = {
      name: "platform",
      config: "kind: Cluster",
      configHash: "abc",
      nodeImage: "kindest/node:v1",
      hostPort: await freePort(),
      kubeconfigPath: join(tools.directory, "own", "kubeconfig"),
    };
  });
  after(() => tools.remove());
  afterEach(() => rm(dirname(wanted.kubeconfigPath), { recursive: true, force: true }));

  it("is made of its configuration, with a kubeconfig of its own", async () => {
    await machine({});
    const { id, outs } = await create();
    expect(id).to.equal("platform");
    expect(outs).to.deep.include({ kubeconfig: "kubeconfig of platform\n", nodeId: "node-id" });
    expect(await tools.configuration()).to.equal(wanted.config);
    const calls = (await tools.calls()).filter((call) => /^kind (create|export)/.test(call));
    expect(calls).to.have.length(2);
    for (const call of calls) expect(call).to.include(`--kubeconfig ${wanted.kubeconfigPath}`);
  });

  it("that was finished when Pulumi was killed is taken over while it is empty", async () => {
    await machine({});
    await create();
    await machine({ clusters: ["platform"], hash: "abc" });
    expect((await create()).outs).to.include({ nodeId: "node-id" });
    expect(await made()).to.deep.equal([]);
  });

  const strangers: [string, Machine, boolean, string][] = [
    ["was not made from here", { hash: "abc" }, false, "was not made from here"],
    ["has another configuration", { hash: "other" }, true, "with another configuration"],
    [
      "holds a platform of another state",
      { hash: "abc", hasPlatform: true },
      true,
      "knows nothing",
    ],
  ];
  for (const [what, about, isFromHere, message] of strangers) {
    it(`that ${what} is left alone, and the user learns what to do`, async () => {
      await machine({});
      if (isFromHere) await create();
      await machine({ clusters: ["platform"], ...about });
      const error = await failureOf(create());
      expect(error.message).to.include(message).and.include("kind delete cluster --name platform");
      expect(error.message).to.include("--cluster-name");
      expect(await made()).to.deep.equal([]);
      expect((await tools.calls()).join("\n")).not.to.include("kind delete");
    });
  }

  describe("found beside a sign that making it was broken off", () => {
    const breakOff = async () => {
      await mkdir(dirname(wanted.kubeconfigPath), { recursive: true });
      await writeFile(`${wanted.kubeconfigPath}.unfinished`, "");
    };

    it("is removed and made anew if our port leads into it", async () => {
      await breakOff();
      await machine({ clusters: ["platform"], nodePorts: [40_001, wanted.hostPort] });
      await create();
      expect((await tools.calls()).join("\n")).to.match(/kind delete cluster.*kind create/s);
    });

    it("is left alone if it is somebody else's", async () => {
      await breakOff();
      await machine({ clusters: ["platform"], nodePorts: [40_001] });
      const error = await failureOf(create());
      expect(error.message).to.include("was not made from here");
      expect((await tools.calls()).join("\n")).not.to.include("kind delete");
    });
  });

  it("that another name begins like it is not mistaken for it", async () => {
    await machine({ clusters: ["platform-old"] });
    await create();
    expect(await made()).to.have.length(1);
  });

  it("that fails half-way is removed, so that the next try can be made", async () => {
    await machine({ creationFails: "no room" });
    const error = await failureOf(create());
    expect(error.message).to.include("no room");
    expect((await tools.calls()).at(-1)).to.match(/^kind delete cluster --name platform /);
  });

  it("that somebody else makes at the same moment is not removed", async () => {
    await machine({
      creationFails: 'node(s) already exist for a cluster with the name "platform"',
    });
    const error = await failureOf(create());
    expect(error.message).to.include("already exist");
    expect((await tools.calls()).join("\n")).not.to.include("kind delete");
  });

  describe("is refused before anything is changed", () => {
    const refusal = async (olds: object, news: object) => {
      const { failures = [] } = await provider.check(URN, olds, { ...news });
      return failures.map(({ reason }) => reason).join("\n");
    };

    it("where Docker has too little memory", async () => {
      await machine({ memoryBytes: 2 * 1024 ** 3 });
      expect(await refusal({}, wanted)).to.match(/2\.0 GiB of memory.*Resources/s);
    });

    it("where its port is taken", async () => {
      await machine({});
      const reason = await whileTaken(wanted.hostPort, () => refusal({}, wanted));
      expect(reason).to.include(`Port ${wanted.hostPort} is taken by process ${process.pid}`);
    });

    it("where it would take the place of one with data in it", async () => {
      await machine({ clusters: ["platform"] });
      const other = { ...wanted, hostPort: await freePort(), configHash: "other" };
      const reason = await refusal(wanted, other);
      expect(reason).to.include(`hostPort changes from ${wanted.hostPort} to ${other.hostPort}`);
      expect(reason).to.include("be lost").and.include("./install.sh --replace-cluster");
      expect(await refusal(wanted, { ...wanted, configHash: "other" })).to.include(
        "kind's configuration changes",
      );
      expect(await refusal(wanted, wanted)).to.equal("");
    });
  });

  describe("that is to make way for another one", () => {
    const goOn = () => {};
    const isDeleted = async () => (await tools.calls()).join("\n").includes("kind delete");

    it("goes, with its successor's image fetched before", async () => {
      await machine({ clusters: ["platform"], absentImages: ["node:2"] });
      expect(await makeWay(wanted, { ...wanted, nodeImage: "node:2" }, goOn)).to.equal(true);
      expect((await tools.calls()).join("\n")).to.match(
        /docker pull --quiet node:2.*kind delete cluster --name platform/s,
      );
    });

    it("stays where the user has changed their mind, be it at the last moment", async () => {
      await machine({ clusters: ["platform"] });
      const changed = () => {
        throw new Error("Stopped.");
      };
      const error = await failureOf(makeWay(wanted, { ...wanted, nodeImage: "node:2" }, changed));
      expect(error.message).to.equal("Stopped.");
      expect(await isDeleted()).to.equal(false);
    });

    it("stays where none is needed", async () => {
      await machine({ clusters: ["platform"] });
      expect(await makeWay(wanted, { ...wanted, kubeconfigPath: "/elsewhere" }, goOn)).to.equal(
        false,
      );
      expect(await isDeleted()).to.equal(false);
    });

    it("stays where that one could not be made", async () => {
      await machine({ clusters: ["platform", "taken"] });
      const port = await freePort();
      const onPort = await whileTaken(port, () =>
        failureOf(makeWay(wanted, { ...wanted, hostPort: port }, goOn)),
      );
      expect(onPort.message).to.include(`Port ${port} is taken`);
      const named = await failureOf(makeWay(wanted, { ...wanted, name: "taken" }, goOn));
      expect(named.message).to.include("There is a kind cluster taken already");
      expect(await isDeleted()).to.equal(false);
    });
  });

  it("deleted by hand is known to be gone, by a refresh and by an update without one", async () => {
    await machine({});
    expect(await provider.read("platform", URN, wanted)).to.deep.equal({});
    const { failures = [] } = await provider.check(URN, wanted, { ...wanted });
    expect(failures[0]?.reason).to.include("is gone").and.include("pulumi up --refresh");
  });

  it("stopped is no cluster whose objects are gone: an update without a refresh refuses", async () => {
    await machine({ clusters: ["platform"], nodeRuns: false });
    const { failures = [] } = await provider.check(URN, wanted, { ...wanted });
    expect(failures[0]?.reason).to.include("docker start platform-control-plane");
  });

  it("stopped, e.g. with its laptop, is started again", async () => {
    await machine({ clusters: ["platform"], nodeRuns: false });
    const { id, inputs } = await provider.read("platform", URN, { ...wanted });
    expect(id).to.equal("platform");
    expect(inputs).to.deep.equal(wanted);
    const calls = await tools.calls();
    const start = calls.indexOf("docker start platform-control-plane");
    expect(start).to.be.greaterThan(-1);
    expect(calls.slice(start).join("\n")).to.include("--for=condition=Ready");
  });

  it("is deleted by its own kubeconfig, which goes with it", async () => {
    await machine({});
    const { outs } = await create();
    expect(await isThere(wanted.kubeconfigPath)).to.equal(true);
    await cluster.delete(outs);
    expect(await tools.calls()).to.include(
      `kind delete cluster --name platform --kubeconfig ${wanted.kubeconfigPath}`,
    );
    expect(await isThere(wanted.kubeconfigPath)).to.equal(false);
  });

  describe("takes kind's network along", () => {
    const removed = async () => (await tools.calls()).includes("docker network rm kind");
    const remove = (outs: unknown) => provider.delete("platform", URN, outs);

    it("if it came with it", async () => {
      await machine({ networks: ["bridge"] });
      const { outs } = await create();
      await remove(outs);
      expect(await removed()).to.equal(true);
    });

    it("even if the cluster was deleted behind our back and made again", async () => {
      await machine({});
      await create();
      await machine({ networks: ["kind"] });
      const { outs } = await create();
      await remove(outs);
      expect(await removed()).to.equal(true);
    });

    it("unless it was there before", async () => {
      await machine({ networks: ["kind"] });
      const { outs } = await create();
      await remove(outs);
      expect(await removed()).to.equal(false);
    });

    it("unless a container of another cluster belongs to it, be it a stopped one", async () => {
      await machine({ attached: ["4f1d0c7be2a9"] });
      const { outs } = await create();
      await remove(outs);
      expect(await removed()).to.equal(false);
    });

    it("if it is still there", async () => {
      await machine({});
      const { outs } = await create();
      await machine({ clusters: ["platform"] });
      await remove(outs);
      expect(await removed()).to.equal(false);
    });
  });
});

describe("the images of a kind cluster", () => {
  const urn = URN.replace("Cluster::cluster", "LoadedImages::images");
  const digest = `sha256:${"ab".repeat(32)}`;
  const images = { clusterName: "platform", nodeId: "node-id", images: [`postgres:17@${digest}`] };
  const inNode = "platform.local/postgres:17-abababababab";
  let tools: FakeTools;

  before(async () => {
    tools = await fakeTools();
  });
  after(() => tools.remove());

  it("go into the node under the name that pods use, and are not pulled if Docker has them", async () => {
    await tools.set({});
    await provider.create(urn, images);
    const calls = await tools.calls();
    expect(calls).to.include(`docker tag postgres:17@${digest} ${inNode}`);
    expect(calls).to.include(`docker save ${inNode}`);
    expect(calls.filter((call) => call.startsWith("docker pull"))).to.deep.equal([]);
  });

  it("go as a whole where what Docker saves can't be thinned, or they are many", async () => {
    const saves = async () =>
      (await tools.calls()).filter((call) => call.startsWith("docker save")).length;
    await tools.set({ layersInNode: ["sha256:aa"] });
    await provider.create(urn, images);
    expect(await saves()).to.equal(2);

    await tools.set({ layersInNode: ["sha256:aa"] });
    await provider.create(urn, { ...images, images: ["a:1", "b:1", "c:1"] });
    expect(await tools.calls()).to.include("docker save a:1 b:1 c:1");
    expect(await saves()).to.equal(1);
  });

  it("are not loaded again where the node has them", async () => {
    await tools.set({ imagesInNode: [inNode] });
    await provider.create(urn, images);
    expect((await tools.calls()).join("\n")).not.to.include("save");
  });

  it("that the node has lost are missed at the next refresh", async () => {
    await tools.set({ imagesInNode: [] });
    const { props } = await provider.read("platform/images", urn, images);
    expect(props).to.deep.include({ images: [] });
  });
});

/** Does something while somebody listens on a port. */
async function whileTaken<T>(port: number, work: () => Promise<T>): Promise<T> {
  const holder = createServer().listen(port, "127.0.0.1");
  await once(holder, "listening");
  try {
    return await work();
  } finally {
    holder.close();
    await once(holder, "close");
  }
}
