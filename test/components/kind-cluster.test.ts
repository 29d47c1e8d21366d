import { once } from "node:events";
import { access } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { type ClusterInputs, cluster } from "../../components/kind-provider/cluster.ts";
import { KindLocalProvider } from "../../components/kind-provider/provider.ts";
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

  it("is taken over where it is there with the same configuration", async () => {
    await machine({ clusters: ["platform"], hash: "abc" });
    expect((await create()).outs).to.include({ nodeId: "node-id" });
    expect(await made()).to.deep.equal([]);
  });

  it("is left alone where it is there with another one, and the user learns what to do", async () => {
    await machine({ clusters: ["platform"], hash: "other" });
    const error = await failureOf(create());
    expect(error.message).to.match(/already, with another configuration.*platform:clusterName/s);
    expect(await made()).to.deep.equal([]);
    expect((await tools.calls()).join("\n")).not.to.include("delete");
    expect(await isThere(wanted.kubeconfigPath)).to.equal(false);
  });

  it("that another name begins like it is not mistaken for it", async () => {
    await machine({ clusters: ["platform-old"] });
    await create();
    expect(await made()).to.have.length(1);
  });

  it("that fails half-way is removed, so that the next try can be made", async () => {
    await machine({ creationFails: true });
    const error = await failureOf(create());
    expect(error.message).to.include("no room");
    expect((await tools.calls()).at(-1)).to.match(/^kind delete cluster --name platform /);
  });

  it("is not begun where Docker has too little memory", async () => {
    await machine({ memoryBytes: 2 * 1024 ** 3 });
    const error = await failureOf(create());
    expect(error.message).to.match(/2\.0 GiB of memory.*Resources/s);
    expect(await made()).to.deep.equal([]);
  });

  it("is not begun where its port is taken", async () => {
    await machine({});
    const holder = await listen(wanted.hostPort);
    try {
      const error = await failureOf(create());
      expect(error.message).to.include(String(wanted.hostPort));
      expect(await made()).to.deep.equal([]);
    } finally {
      holder.close();
      await once(holder, "close");
    }
  });

  it("deleted by hand is known to be gone", async () => {
    await machine({});
    expect(await provider.read("platform", URN, wanted)).to.deep.equal({});
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
    await machine({ clusters: ["platform"], hash: "abc" });
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

async function freePort(): Promise<number> {
  const server = await listen(0);
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("No port was given.");
  return address.port;
}

async function listen(port: number): Promise<Server> {
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}
