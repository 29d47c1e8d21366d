import { mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect } from "chai";
import { CLUSTER, CliBench } from "../support/cli.ts";

describe("agentctl env", () => {
  let bench: CliBench;

  beforeEach(async () => {
    bench = await CliBench.make();
  });

  afterEach(() => bench.remove());

  it("adds environments, selects the first, and another when asked", async () => {
    const added = await bench.addEnvironment("local");
    expect(added).to.deep.equal({
      code: 0,
      output:
        "Environment local: context kind-platform, namespace default, agents at http://localhost:8088.\nIt is selected.\n",
      errors: "",
    });
    const second = await bench.run(
      ...["env", "add", "prod", "--kube-context", "prod", "--namespace", "agents"],
    );
    expect(second.output).to.include("Select it with: agentctl env use prod");
    expect((await bench.run("env", "use", "prod")).output).to.equal(
      "Environment prod is selected.\n",
    );
    expect((await bench.run("env", "list")).output).to.equal(
      [
        "   NAME   CONTEXT        NAMESPACE  AGENTS",
        "   local  kind-platform  default    http://localhost:8088",
        "*  prod   prod           agents     -",
        "",
      ].join("\n"),
    );
  });

  it("keeps them where only their owner can read, and leaves nothing else behind", async () => {
    await bench.addEnvironment("local", "--token", "secret-token");
    expect((await stat(bench.file)).mode & 0o777).to.equal(0o600);
    expect((await stat(dirname(bench.file))).mode & 0o777).to.equal(0o700);
    expect(await readdir(dirname(bench.file))).to.deep.equal(["environments.json"]);
  });

  it("never shows a token", async () => {
    const added = await bench.addEnvironment("local", "--token", "secret-token");
    const listed = await bench.run("env", "list");
    expect(added.output + listed.output).to.not.include("secret-token");
  });

  it("reads a token from standard input, so that no process list has it", async () => {
    bench.input = "piped-token\n";
    await bench.addEnvironment("local", "--token", "-");
    expect(await readFile(bench.file, "utf8")).to.include('"token": "piped-token"');
    bench.input = "";
    const empty = await bench.addEnvironment("other", "--token", "-");
    expect(empty).to.include({ code: 2 });
    expect(empty.errors).to.include("Standard input has no token");
  });

  it("adds the same environment again without a word against it", async () => {
    await bench.addEnvironment("local");
    expect(await bench.addEnvironment("local")).to.include({ code: 0, errors: "" });
  });

  it("replaces an environment only when told to", async () => {
    await bench.addEnvironment("local", "--token", "kept");
    const refused = await bench.addEnvironment("local");
    expect(refused.code).to.equal(1);
    expect(refused.errors).to.match(/There is an environment local already.*--replace/s);
    expect(await readFile(bench.file, "utf8")).to.include("kept");
    expect(await bench.addEnvironment("local", "--replace")).to.include({ code: 0 });
    expect(await readFile(bench.file, "utf8")).to.not.include("kept");
  });

  it("knows no environment that was not added, and names those that were", async () => {
    expect((await bench.run("env", "use", "local")).errors).to.include(
      "Add it: agentctl env add local",
    );
    await bench.addEnvironment("local");
    const refused = await bench.run("env", "use", "lokal");
    expect(refused.code).to.equal(1);
    expect(refused.errors).to.equal(
      "Error: There is no environment lokal.\nEnvironments: local.\n",
    );
    expect((await bench.run("env", "use", "constructor")).code).to.equal(1);
  });

  for (const [what, content] of [
    ["no JSON", "{"],
    ["an empty file", ""],
    ["of another shape", '{"version":1,"current":null,"environments":{"a":{"namespace":"x"}}}'],
    ["of a later version", '{"version":2,"current":null,"environments":{}}'],
  ] as const) {
    it(`names a file that is ${what}, and never overwrites it`, async () => {
      await mkdir(dirname(bench.file));
      await writeFile(bench.file, content);
      for (const words of [["list"], ["use", "a"], ["add", "a", ...CLUSTER]]) {
        const { code, errors } = await bench.run("env", ...words);
        expect(code).to.equal(1);
        expect(errors).to.include(`The environments in ${bench.file} can't be understood: `);
        expect(errors).to.include("It was left as it is.");
      }
      expect(await readFile(bench.file, "utf8")).to.equal(content);
    });
  }

  it("follows a file that is a symbolic link, as dotfiles have it", async () => {
    const real = join(bench.configHome, "dotfiles.json");
    await mkdir(dirname(bench.file));
    await writeFile(real, '{"version":1,"current":null,"environments":{}}');
    await symlink(real, bench.file);
    await bench.addEnvironment("local");
    expect(await readFile(real, "utf8")).to.include("kind-platform");
  });

  for (const [what, words, says] of [
    ["no name", ["env", "add", ...CLUSTER], "<name> is missing."],
    ["no context", ["env", "add", "a", "--namespace", "x"], "--kube-context is missing."],
    ["two names", ["env", "add", "a", "b", ...CLUSTER], '"b" is one too many.'],
    ["a name with a slash", ["env", "add", "a/b", ...CLUSTER], "<name> takes letters"],
    [
      "a namespace that is none",
      ["env", "add", "a", "--kube-context", "c", "--namespace", "N!"],
      "--namespace is not a namespace.",
    ],
    [
      "an address without a scheme",
      ["env", "add", "a", ...CLUSTER, "--agents-host", "agents.example.com"],
      "--agents-host must be a URL with http or https.",
    ],
    ["an unknown option", ["env", "list", "--wide"], "Unknown option '--wide'."],
  ] as const) {
    it(`refuses ${what} as a wrong command line`, async () => {
      const { code, errors } = await bench.run(...words);
      expect(code).to.equal(2);
      expect(errors).to.include(says);
      expect(errors).to.match(/See agentctl env (add|list) --help\.\n$/);
    });
  }
});
