import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import {
  installedCluster,
  lostImages,
  stackEnvironment,
  wasInterrupted,
} from "../../installer/stack.ts";
import { failureOf } from "../support/failure.ts";
import { type FakeTools, fakeTools } from "../support/fake-tools.ts";

const CLEAN = `# What the team wrote.
config:
  platform:cluster: kind # ours
  platform:devTokens: "true"
`;
const WITH_SECRETS = `encryptionsalt: v1:abc
${CLEAN}  platform:providers:
    secure: v1:def
`;

describe("the passphrase of the local stack", () => {
  let checkout: string;
  const data = () => join(checkout, ".platform");
  const file = () => join(checkout, "Pulumi.local.yaml");

  beforeEach(async () => {
    checkout = await mkdtemp(join(tmpdir(), "platform-stack-"));
    await writeFile(file(), WITH_SECRETS);
  });
  afterEach(() => rm(checkout, { recursive: true }));

  it("is made once, for this account alone, and stays", async () => {
    const environment = await stackEnvironment(checkout, data());
    const path = environment.PULUMI_CONFIG_PASSPHRASE_FILE ?? "";
    const passphrase = await readFile(path, "utf8");
    expect(passphrase).to.match(/^[\w-]{32}$/);
    expect((await stat(path)).mode & 0o777).to.equal(0o600);
    await stackEnvironment(checkout, data());
    expect(await readFile(path, "utf8")).to.equal(passphrase);
  });

  it("made anew drops from the stack's file what the lost one encrypted, and nothing else", async () => {
    await stackEnvironment(checkout, data());
    expect(await readFile(file(), "utf8")).to.equal(CLEAN);
  });

  it("is not made anew where a state holds what the lost one encrypted", async () => {
    const stacks = join(data(), "state/.pulumi/stacks/platform");
    await mkdir(stacks, { recursive: true });
    await writeFile(join(stacks, "local.json"), "{}");
    const error = await failureOf(stackEnvironment(checkout, data()));
    expect(error.message).to.include(join(data(), "passphrase"));
    expect(error).to.have.property("hint").that.includes("kind delete cluster");
    expect(await readFile(file(), "utf8")).to.equal(WITH_SECRETS);
  });
});

describe("the state of the local stack", () => {
  let tools: FakeTools;

  before(async () => {
    tools = await fakeTools();
  });
  after(() => tools.remove());

  const stateOf = (deployment: object) => ({ version: 3, deployment });
  const image = (name: string, imageName: string) => ({
    urn: `urn:pulumi:local::platform::docker:index/image:Image::${name}`,
    type: "docker:index/image:Image",
    outputs: { imageName },
  });

  it("tells which of the images that it built Docker has lost", async () => {
    await tools.set({ absentImages: ["platform.local/worker:1"] });
    const resources = [
      image("runtime-build", "platform.local/runtime:1"),
      image("worker-build", "platform.local/worker:1"),
      { urn: "urn:of:a:secret", type: "kubernetes:core/v1:Secret", outputs: {} },
      { urn: "urn:of:the:stack", type: "pulumi:pulumi:Stack" },
    ];
    expect(await lostImages(stateOf({ resources }))).to.deep.equal([resources[1]?.urn]);
    expect(await lostImages(stateOf({}))).to.deep.equal([]);
  });

  it("tells which cluster there is", () => {
    const inputs = {
      name: "mine",
      hostPort: 9000,
      config: "…",
      configHash: "abc",
      nodeImage: "kindest/node:v1",
      kubeconfigPath: "/kubeconfig",
    };
    const resources = [{ urn: "urn", type: "kindlocal:index:Cluster", inputs }];
    expect(installedCluster(stateOf({ resources }))).to.deep.equal(inputs);
    expect(installedCluster(stateOf({}))).to.equal(undefined);
  });

  it("tells whether an update was broken off", () => {
    expect(wasInterrupted(stateOf({ pending_operations: [{}] }))).to.equal(true);
    expect(wasInterrupted(stateOf({}))).to.equal(false);
  });
});
