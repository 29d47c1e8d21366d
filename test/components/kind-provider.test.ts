import { expect } from "chai";
import { KindLocalProvider } from "../../components/kind-provider/provider.ts";
import { type FakeTools, fakeTools } from "../support/fake-tools.ts";

const provider = new KindLocalProvider();
const urn = (kind: string) => `urn:pulumi:local::platform::kindlocal:index:${kind}::it`;
/** What the engine sends for a value that a preview can't know. */
const UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

const CLUSTER: Record<string, unknown> = {
  name: "platform",
  config: "kind: Cluster",
  configHash: "abc",
  nodeImage: "kindest/node:v1",
  hostPort: 8088,
  kubeconfigPath: "/tmp/kubeconfig",
};
const IMAGES = { clusterName: "platform", nodeId: "node-1", images: ["app:1"] };
const SANDBOX = {
  clusterName: "platform",
  nodeId: "node-1",
  archive: "/gvisor.tar",
  sha512: "0".repeat(128),
  cacheDirectory: "/tmp/cache",
};

describe("the check of a kind cluster's inputs", () => {
  let tools: FakeTools;

  before(async () => {
    tools = await fakeTools();
    await tools.set({ clusters: ["platform"] });
  });
  after(() => tools.remove());

  it("finds nothing wrong with what the program says", async () => {
    const { inputs, failures } = await provider.check(urn("Cluster"), {}, CLUSTER);
    expect(failures).to.deep.equal([]);
    expect(inputs).to.deep.equal(CLUSTER);
  });

  for (const property of Object.keys(CLUSTER)) {
    it(`names ${property} where it is missing`, async () => {
      const { [property]: _, ...rest } = CLUSTER;
      const { failures = [] } = await provider.check(urn("Cluster"), {}, rest);
      expect(failures.map((failure) => failure.property)).to.deep.equal([property]);
    });
  }

  it("names a port that is text", async () => {
    const { failures = [] } = await provider.check(
      urn("Cluster"),
      {},
      { ...CLUSTER, hostPort: "x" },
    );
    expect(failures.map(({ property }) => property)).to.deep.equal(["hostPort"]);
  });

  it("lets pass what a preview can't know yet", async () => {
    const news = { ...IMAGES, nodeId: UNKNOWN };
    const { failures } = await provider.check(urn("LoadedImages"), {}, news);
    expect(failures).to.deep.equal([]);
  });

  it("says that a kind of resource is not there", async () => {
    try {
      await provider.check(urn("Registry"), {}, {});
      expect.fail("It should have been refused.");
    } catch (error) {
      expect((error as Error).message).to.include("kindlocal:index:Registry");
    }
  });
});

describe("a change of what a local installation has outside of Kubernetes", () => {
  const diff = (kind: string, olds: object, news: object) =>
    provider.diff("id", urn(kind), { ...olds }, { ...news });

  it("is none where the inputs are those of the state", async () => {
    const state = { ...CLUSTER, kubeconfig: "…", nodeId: "node-1", __provider: "x" };
    expect(await diff("Cluster", state, { ...CLUSTER, __defaults: [] })).to.deep.include({
      changes: false,
      replaces: [],
    });
  });

  for (const property of ["name", "config", "configHash", "nodeImage", "hostPort"]) {
    it(`makes the cluster anew where it is of its ${property}, the old one gone first`, async () => {
      const result = await diff("Cluster", CLUSTER, { ...CLUSTER, [property]: "another" });
      expect(result).to.deep.equal({
        changes: true,
        replaces: [property],
        deleteBeforeReplace: true,
      });
    });
  }

  const updates: [string, object, object][] = [
    ["Cluster", CLUSTER, { kubeconfigPath: "/elsewhere" }],
    ["LoadedImages", IMAGES, { images: ["app:2"] }],
    ["Sandbox", SANDBOX, { sha512: "1".repeat(128) }],
  ];
  for (const [kind, state, change] of updates) {
    it(`updates ${kind} in place where it is of ${Object.keys(change)}`, async () => {
      const result = await diff(kind, state, { ...state, ...change });
      expect(result).to.deep.include({ changes: true, replaces: [] });
    });
  }

  for (const [kind, state] of [
    ["LoadedImages", IMAGES],
    ["Sandbox", SANDBOX],
  ] as const) {
    it(`makes ${kind} anew on another node, even one that a preview does not know`, async () => {
      for (const nodeId of ["node-2", UNKNOWN]) {
        const result = await diff(kind, state, { ...state, nodeId });
        expect(result.replaces).to.deep.equal(["nodeId"]);
      }
    });
  }
});
