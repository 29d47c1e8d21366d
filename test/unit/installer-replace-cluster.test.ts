import type { EngineEvent, PreviewOptions } from "@pulumi/pulumi/automation/index.js";
import { expect } from "chai";
import { KindLocalProvider } from "../../components/kind-provider/provider.ts";
import type { Following } from "../../installer/following.ts";
import { replaceCluster } from "../../installer/replace-cluster.ts";
import { failureOf } from "../support/failure.ts";
import { type FakeTools, fakeTools } from "../support/fake-tools.ts";

const TYPE = "kindlocal:index:Cluster";
const INSTALLED = {
  name: "platform",
  config: "kind: Cluster",
  configHash: "abc",
  nodeImage: "kindest/node:v1",
  hostPort: 8088,
  kubeconfigPath: "/nowhere/kubeconfig",
};
const goOn = () => {};

describe("./install.sh --replace-cluster", () => {
  let tools: FakeTools;
  let told: EngineEvent[];

  before(async () => {
    tools = await fakeTools();
  });
  after(() => tools.remove());
  beforeEach(async () => {
    told = [];
    await tools.set({ clusters: ["platform"] });
  });

  /** A stack of which Pulumi would say this in a preview. */
  const stack = (planned: object, refusal?: string) => ({
    async exportStack() {
      const resources = [{ urn: "urn", type: TYPE, inputs: INSTALLED }];
      return { version: 3, deployment: { resources } };
    },
    async preview({ onEvent }: PreviewOptions = {}) {
      // As the engine does: first with what is there, then as if nothing were.
      const provider = new KindLocalProvider();
      const urn = `urn:pulumi:local::platform::${TYPE}::cluster`;
      for (const before of [INSTALLED, {}]) {
        const { failures = [] } = await provider.check(urn, before, { ...planned });
        expect(failures).to.deep.equal([]);
      }
      const event = (about: object) => onEvent?.({ sequence: 1, timestamp: 1, ...about });
      event({ resourcePreEvent: { metadata: { type: TYPE, new: { inputs: planned } } } });
      event({ resourcePreEvent: { metadata: { type: TYPE, new: null } } });
      if (refusal !== undefined) {
        event({ diagnosticEvent: { severity: "error", message: refusal } });
        throw new Error("preview failed");
      }
      return { stdout: "", stderr: "", changeSummary: {} };
    },
  });
  const following: Following = {
    onEvent: (event) => told.push(event),
    signal: new AbortController().signal,
    color: "never",
  };
  const isDeleted = async () => (await tools.calls()).join("\n").includes("kind delete");

  it("deletes the cluster where a preview wants another one", async () => {
    const planned = { ...INSTALLED, nodeImage: "kindest/node:v2" };
    expect(await replaceCluster(stack(planned), following, goOn)).to.equal("platform");
    expect(await isDeleted()).to.equal(true);
  });

  it("leaves it where the preview wants the same", async () => {
    expect(await replaceCluster(stack(INSTALLED), following, goOn)).to.equal(undefined);
    expect(await isDeleted()).to.equal(false);
  });

  it("leaves it where the preview fails, for whatever reason, and tells that reason", async () => {
    const planned = { ...INSTALLED, nodeImage: "kindest/node:v2" };
    const refused = stack(planned, "agents/poet.ts declares no agent");
    const error = await failureOf(replaceCluster(refused, following, goOn));
    expect(error.message).to.equal("preview failed");
    expect(told.map(({ diagnosticEvent }) => diagnosticEvent?.message)).to.deep.equal([
      "agents/poet.ts declares no agent",
    ]);
    expect(await isDeleted()).to.equal(false);
  });
});
