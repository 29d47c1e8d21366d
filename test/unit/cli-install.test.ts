import { execFile } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect } from "chai";

const ROOT = resolve(import.meta.dirname, "../..");
const LAUNCHER = join(ROOT, "cli/bin/agentctl.mjs");
/** Makes this Node one that can't run TypeScript, as Node 20 is. */
const LIKE_NODE_20 = "--no-experimental-strip-types";

describe("the agentctl command", () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "agentctl-install-"));
  });

  afterEach(() => rm(directory, { recursive: true }));

  it("works after npm install -g of its folder", async () => {
    const installed = await execute("npm", [
      "install",
      "-g",
      "--offline",
      "--prefix",
      directory,
      "./cli",
    ]);
    expect(installed.code, installed.errors).to.equal(0);
    const { code, output, errors } = await execute(join(directory, "bin/agentctl"), ["--version"]);
    expect({ code, output, errors }).to.deep.equal({ code: 0, output: "2.3.1\n", errors: "" });
  });

  it("runs on a Node without TypeScript by the one of its checkout", async () => {
    const { code, output, errors } = await execute(process.execPath, [
      LIKE_NODE_20,
      LAUNCHER,
      "env",
      "use",
      "nowhere",
    ]);
    expect({ code, output }).to.deep.equal({ code: 1, output: "" });
    expect(errors).to.include("There is no environment nowhere.");
  });

  it("says which command brings missing packages", async () => {
    await mkdir(join(directory, "runtime/common"), { recursive: true });
    await writeFile(join(directory, "runtime/common/errors.ts"), "");
    const { code, errors } = await runCopy();
    expect(code).to.equal(1);
    expect(errors).to.include(`Install them: cd ${directory} && npm ci`);
  });

  it("says how to get a Node that will do", async () => {
    await mkdir(join(directory, "runtime/common"), { recursive: true });
    await writeFile(join(directory, "runtime/common/errors.ts"), "");
    await mkdir(join(directory, "node_modules/zod"), { recursive: true });
    await writeFile(join(directory, "node_modules/zod/package.json"), "{}");
    const { code, errors } = await runCopy();
    expect(code).to.equal(1);
    expect(errors).to.include("agentctl needs Node 22.19 or newer");
    expect(errors).to.include("npm rebuild node --ignore-scripts=false");
  });

  it("says how to install it where it was copied away from its checkout", async () => {
    const { code, errors } = await runCopy();
    expect(code).to.equal(1);
    expect(errors).to.include("Link it: npm install -g ./cli");
  });

  it("ends as the Node it hands over to ends", async () => {
    await mkdir(join(directory, "runtime/common"), { recursive: true });
    await writeFile(join(directory, "runtime/common/errors.ts"), "");
    for (const path of ["node_modules/zod/package.json", "node_modules/.bin/node"]) {
      await mkdir(join(directory, path, ".."), { recursive: true });
      await writeFile(
        join(directory, path),
        '#!/bin/sh\necho "$@" | sed "s/.*main.ts //"; exit 7\n',
      );
    }
    await chmod(join(directory, "node_modules/.bin/node"), 0o755);
    const { code, output } = await runCopy("run", "--input", "two words");
    expect({ code, output }).to.deep.equal({ code: 7, output: "run --input two words\n" });
  });

  async function runCopy(...words: string[]) {
    await cp(join(ROOT, "cli"), join(directory, "cli"), { recursive: true });
    return execute(process.execPath, [
      LIKE_NODE_20,
      join(directory, "cli/bin/agentctl.mjs"),
      ...words,
    ]);
  }

  function execute(command: string, args: string[]) {
    const env = { ...process.env, XDG_CONFIG_HOME: directory, npm_config_loglevel: "error" };
    return new Promise<{ code: number; output: string; errors: string }>((settle) => {
      execFile(command, args, { cwd: ROOT, env }, (error, output, errors) =>
        settle({
          code: typeof error?.code === "number" ? error.code : error ? -1 : 0,
          output,
          errors,
        }),
      );
    });
  }
});
