import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConfigMap, Deployment } from "@pulumi/pulumi/automation/index.js";
import { expect } from "chai";
import { clusterInputsOf } from "../../components/kind-cluster.ts";
import { readStackConfiguration } from "../../components/stack-configuration.ts";
import { kindClusterArgs } from "../../components/target-cluster.ts";
import { replaceCluster } from "../../installer/replace-cluster.ts";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { failureOf } from "../support/failure.ts";
import { type FakeTools, fakeTools } from "../support/fake-tools.ts";
import { CHECKOUT } from "../support/pulumi-program.ts";

const STACK_FILE = {
  "platform:cluster": "kind",
  "platform:demo": "true",
  "platform:samples": "false",
};

describe("./install.sh --replace-cluster", () => {
  let tools: FakeTools;
  let data: string;

  before(async () => {
    tools = await fakeTools();
  });
  after(() => tools.remove());
  beforeEach(async () => {
    data = await mkdtemp(join(tmpdir(), "platform-replace-"));
    await tools.set({ clusters: ["platform"] });
  });
  afterEach(() => rm(data, { recursive: true }));

  /** A stack whose cluster is the one of its file. */
  const stack = () => {
    const inputs = clusterInputsOf(kindClusterArgs(readStackConfiguration(STACK_FILE), data));
    const resources = [{ urn: "urn", type: "kindlocal:index:Cluster", inputs }];
    const config: ConfigMap = Object.fromEntries(
      Object.entries(STACK_FILE).map(([key, value]) => [key, { value }]),
    );
    const state: Deployment = { version: 3, deployment: { resources } };
    return { exportStack: async () => state, getAllConfig: async () => config };
  };
  const replace = (settings: Record<string, unknown>) =>
    replaceCluster(stack(), { checkout: CHECKOUT, agents: join(data, "agents"), data }, settings);
  const isDeleted = async () => (await tools.calls()).join("\n").includes("kind delete");

  it("deletes the cluster where the settings need another one", async () => {
    expect(await replace({ hostPort: await freePort() })).to.equal("platform");
    expect(await isDeleted()).to.equal(true);
  });

  it("leaves it where they don't", async () => {
    expect(await replace({ replicas: 2 })).to.equal(undefined);
    expect(await isDeleted()).to.equal(false);
  });

  it("leaves it where the update to follow would be refused for its settings", async () => {
    const error = await failureOf(replace({ hostPort: await freePort(), replica: 2 }));
    expect(error.message).to.include("platform:replica");
    expect(await isDeleted()).to.equal(false);
  });

  it("leaves it where the update to follow would be refused for an agent", async () => {
    await mkdir(join(data, "agents"));
    await writeFile(join(data, "agents/poet.ts"), "export default 1;");
    const error = await failureOf(replace({ hostPort: await freePort(), samples: true }));
    expect(error.message).to.include("poet.ts declares no agent");
    expect(await isDeleted()).to.equal(false);
  });
});
