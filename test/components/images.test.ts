import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { imageValues } from "../../components/agent.ts";
import { agentContext } from "../../components/agent-context.ts";
import { contentHash } from "../../components/image.ts";
import type { Registered } from "../support/pulumi-monitor.ts";
import { CHECKOUT, configOf, localStack, runProgram } from "../support/pulumi-program.ts";

describe("the content of an image", () => {
  let context: string;
  const hash = (buildArgs: Record<string, string> = { BASE_IMAGE: "node" }) =>
    contentHash(context, ["package.json", "src"], buildArgs);

  beforeEach(async () => {
    context = await mkdtemp(join(tmpdir(), "platform-image-"));
    await mkdir(join(context, "src/inner"), { recursive: true });
    await writeFile(join(context, "package.json"), "{}");
    await writeFile(join(context, "src/main.ts"), "main");
    await writeFile(join(context, "src/inner/part.ts"), "part");
  });
  afterEach(() => rm(context, { recursive: true, force: true }));

  it("has the same tag wherever the checkout lies", async () => {
    const before = hash();
    const copy = `${context}-copy`;
    await cp(context, copy, { recursive: true });
    try {
      const after = contentHash(copy, ["package.json", "src"], { BASE_IMAGE: "node" });
      expect(after)
        .to.equal(before)
        .and.to.match(/^[0-9a-f]{12}$/);
    } finally {
      await rm(copy, { recursive: true });
    }
  });

  it("has another tag when a file deep down changes", async () => {
    const before = hash();
    await writeFile(join(context, "src/inner/part.ts"), "part 2");
    expect(hash()).not.to.equal(before);
  });

  it("has another tag when a file gets another name", async () => {
    const before = hash();
    await rename(join(context, "src/main.ts"), join(context, "src/start.ts"));
    expect(hash()).not.to.equal(before);
  });

  it("has another tag when text moves from one file to the next", async () => {
    await writeFile(join(context, "src/a.ts"), "xy");
    await writeFile(join(context, "src/b.ts"), "");
    const before = hash();
    await writeFile(join(context, "src/a.ts"), "x");
    await writeFile(join(context, "src/b.ts"), "y");
    expect(hash()).not.to.equal(before);
  });

  it("has another tag with another base image", () => {
    expect(hash({ BASE_IMAGE: "node:25" })).not.to.equal(hash());
  });

  it("has the same tag whatever packages and hidden files are beside it", async () => {
    const before = hash();
    await mkdir(join(context, "src/node_modules/x"), { recursive: true });
    await writeFile(join(context, "src/node_modules/x/index.js"), "x");
    await writeFile(join(context, "src/.main.ts.swp"), "being edited");
    expect(hash()).to.equal(before);
  });
});

describe("the build context of an agent", () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "platform-context-"));
    await mkdir(join(folder, "agents/poet/node_modules/x"), { recursive: true });
    const files = ["Dockerfile", ".dockerignore", "poet.ts", "poet/graph.ts", "poet/.graph.ts.swp"];
    for (const file of files) await writeFile(join(folder, "agents", file), file);
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const make = () => agentContext(join(folder, "agents"), "poet", join(folder, "contexts"));
  const content = async (context: string) =>
    (await readdir(context, { recursive: true })).toSorted();

  it("holds what is the agent's, and nothing of another one that is added", async () => {
    const before = make();
    await writeFile(join(folder, "agents/critic.ts"), "critic");
    expect(make()).to.equal(before);
    expect(await content(before)).to.deep.equal([
      ".dockerignore",
      "Dockerfile",
      "poet",
      "poet.ts",
      "poet/graph.ts",
      "poet/node_modules",
      "poet/node_modules/x",
    ]);
  });

  it("is another one when the agent changes, and the one that may be in use stays", async () => {
    const before = make();
    await writeFile(join(folder, "agents/poet/graph.ts"), "changed");
    const after = make();
    expect(after).not.to.equal(before);
    expect(await readFile(join(before, "poet/graph.ts"), "utf8")).to.equal("poet/graph.ts");
    expect(await readFile(join(after, "poet/graph.ts"), "utf8")).to.equal("changed");
    expect(await readdir(join(folder, "contexts"))).to.have.length(2);
  });

  it("keeps links as they are: a place of this machine would lead nowhere in the image", async () => {
    await symlink("graph.ts", join(folder, "agents/poet/link.ts"));
    expect(await readlink(join(make(), "poet/link.ts"))).to.equal("graph.ts");
  });
});

describe("an image in the values of an agent's chart", () => {
  const digest = `sha256:${"ab".repeat(32)}`;
  const cases: [string, Record<string, string>][] = [
    ["example.com/app:1.4", { repository: "example.com/app", tag: "1.4" }],
    ["example.com:5000/app:1.4", { repository: "example.com:5000/app", tag: "1.4" }],
    [`example.com/app@${digest}`, { repository: "example.com/app", digest, tag: "" }],
  ];
  for (const [reference, values] of cases) {
    it(`is taken apart: ${reference.slice(0, 40)}`, () => {
      expect(imageValues(reference)).to.deep.equal(values);
    });
  }
});

describe("the images of the local stack", () => {
  it("are built from this checkout and named by their content, so that a change rolls pods", async () => {
    const { resources } = await localStack();
    const built = resources.filter(({ type }) => type === "docker:index/image:Image");
    expect(built.map(({ name }) => name)).to.have.members([
      "runtime-build",
      "gateway-build",
      "model-gateway-build",
      "provisioner-build",
      "worker-build",
      "agent-assistant-build",
    ]);
    for (const { inputs } of built) {
      expect(inputs.imageName).to.match(/^platform\.local\/[a-z-]+:2\.3\.1-[0-9a-f]{12}$/);
      expect(inputs.skipPush).to.equal(true);
    }
  });

  it("are all built for the processor that the stack names, under names of their own", async () => {
    const builds = (resources: Registered[]) =>
      resources
        .filter(({ type }) => type === "docker:index/image:Image")
        .map(({ inputs }) => inputs as { imageName: string; build: { platform?: string } });
    const here = builds((await localStack()).resources);
    const config = { ...configOf("Pulumi.local.yaml"), "platform:demo": "true" };
    const named = await runProgram({ ...config, "platform:imagePlatform": "linux/arm64" });
    const there = builds(named.resources);

    expect(new Set(here.map(({ build }) => build.platform))).to.deep.equal(new Set([undefined]));
    expect(there).to.have.length(here.length);
    for (const { imageName, build } of there) {
      expect(build.platform, imageName).to.equal("linux/arm64");
      expect(here.map((each) => each.imageName)).not.to.include(imageName);
    }
  });

  it("have contexts of their own, so that a change makes only those anew that it concerns", async () => {
    const { resources } = await localStack();
    const contexts = resources
      .filter(({ type }) => type === "docker:index/image:Image")
      .map(({ name, inputs }) => [name, (inputs.build as { context: string }).context]);

    const { "agent-assistant-build": agent, ...programs } = Object.fromEntries(contexts);
    expect(agent).to.match(/\/\.platform\/agents\/assistant-[0-9a-f]{12}$/);
    expect(programs).to.deep.equal({
      "runtime-build": CHECKOUT,
      "gateway-build": join(CHECKOUT, "runtime/gateway"),
      "model-gateway-build": join(CHECKOUT, "runtime/model-gateway"),
      "provisioner-build": join(CHECKOUT, "runtime/provisioner"),
      "worker-build": join(CHECKOUT, "runtime/worker"),
    });
  });

  it("stand upon one that has the packages and what programs share, and roll when it changes", async () => {
    const { resources } = await localStack();
    const built = (name: string) => {
      const found = resources.find((resource) => resource.name === `${name}-build`);
      return found?.inputs as { imageName: string; build: { args: Record<string, string> } };
    };
    const { imageName } = built("runtime");
    for (const program of ["gateway", "model-gateway", "provisioner", "worker"]) {
      expect(built(program).build.args).to.deep.equal({ RUNTIME_IMAGE: imageName });
    }
  });
});
