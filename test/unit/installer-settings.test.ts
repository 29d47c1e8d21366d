import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { readArguments } from "../../installer/arguments.ts";
import { footer } from "../../installer/footer.ts";
import { gatherSettings, identityIn } from "../../installer/settings.ts";
import { failureOf } from "../support/failure.ts";

const INSTALLED = { clusterName: "mine", hostPort: 9000 };

describe("the settings that the installer is given", () => {
  let directory: string;

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "platform-installer-"));
  });
  after(() => rm(directory, { recursive: true }));

  const settings = async (...argv: string[]) =>
    (await gatherSettings(readArguments(argv), {}, INSTALLED)).settings;

  it("mean the cluster that there is where they name none", async () => {
    expect(await settings("--demo")).to.deep.equal({
      clusterName: "mine",
      hostPort: 9000,
      demo: true,
    });
  });

  it("name another one by a flag or in the file, the flag first", async () => {
    const file = join(directory, "settings.json");
    await writeFile(file, JSON.stringify({ hostPort: 9001, clusterName: "of-the-file" }));
    expect(await settings("--config", file, "--port", "9002")).to.deep.equal({
      clusterName: "of-the-file",
      hostPort: 9002,
    });
  });

  it("mean the cluster that was asked for, where it could not be made, and nothing else of then", () => {
    expect(identityIn({ ...INSTALLED, demo: true, replicas: 3 })).to.deep.equal(INSTALLED);
    expect(identityIn({ demo: true })).to.deep.equal({});
  });

  it("are of no cluster that is there already: that is a stack of its own", async () => {
    const file = join(directory, "existing.yaml");
    await writeFile(file, "config:\n  platform:cluster: existing\n");
    const error = await failureOf(settings("--config", file));
    expect(error.message).to.include(file).and.include("platform:cluster");
    expect(error).to.have.property("hint").that.includes("Pulumi.production.yaml.example");
  });
});

describe("the footer of a cluster", () => {
  const printed = (url: string) =>
    footer({
      url,
      clusterName: "mine",
      kubeconfig: "/k",
      agentsNamespace: "agents",
      graphIds: [],
      defaultModel: "demo/echo",
      token: "t",
      tracing: { email: "e", password: "p" },
      unsandboxed: false,
    });

  it("prints an agentctl environment that leads to this platform, whatever its port", () => {
    expect(printed("http://localhost:8088")).to.include(
      "agentctl env add local --kube-context kind-mine --namespace agents\n",
    );
    expect(printed("http://localhost:9000")).to.include(
      "agentctl env add local --kube-context kind-mine --namespace agents --agents-host http://localhost:9000\n",
    );
  });
});
