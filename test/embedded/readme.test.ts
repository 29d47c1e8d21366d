import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { checkPortFree } from "../../runtime/embedded/machine-checks.ts";
import { PlatformProcess, paste } from "../support/platform-process.ts";

const run = promisify(execFile);
const CHECKOUT = resolve(import.meta.dirname, "../..");
/** Not part of a checkout, or the reader's own data. */
const LEFT_OUT = new Set(["node_modules", ".git", ".platform"]);
const INSTALL = "./install.sh --embedded --demo";
const PRINTED_PORT = "8088";
const STOP_MS = 5_000;

/** The README's commands, in a copy of the checkout so that nobody's data is touched. */
describe("the README", () => {
  let copy: string;
  let platform: PlatformProcess;
  /** Exactly as printed, but for the port where somebody has it already. */
  let printed: (command: string) => string;
  let readme: string;

  before(async () => {
    copy = await mkdtemp(join(tmpdir(), "platform-readme-"));
    await cp(CHECKOUT, copy, {
      recursive: true,
      preserveTimestamps: true,
      filter: (source) => !LEFT_OUT.has(basename(source)),
    });
    await symlink(await realpath(join(CHECKOUT, "node_modules")), join(copy, "node_modules"));
    readme = await readFile(join(copy, "README.md"), "utf8");
    const port = await checkPortFree(Number(PRINTED_PORT)).then(
      () => PRINTED_PORT,
      async () => String(await freePort()),
    );
    printed = (command) => command.replaceAll(PRINTED_PORT, port);
    const flags = port === PRINTED_PORT ? "" : ` --port ${port}`;
    platform = new PlatformProcess({ shell: `${INSTALL}${flags}`, cwd: copy });
    await platform.ready();
  });

  after(async () => {
    const family = await platform.family();
    platform.ctrlCIfRunning();
    expect(await family.leftAfter(STOP_MS)).to.deep.equal([]);
    await rm(copy, { recursive: true, force: true });
  });

  const blocks = (language: string) =>
    [...readme.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(
      ([, text = ""]) => text.trim(),
    );

  it("opens with the command that starts everything", () => {
    expect(blocks("sh").slice(0, 2)).to.deep.equal([INSTALL, "npm cit"]);
  });

  it("prints commands that answer when they are pasted", async () => {
    const commands = blocks("sh").slice(2);

    expect(commands.length).to.be.greaterThan(2);
    for (const command of commands) {
      const answer = await paste(printed(command));
      expect(answer, command)
        .to.match(/demo/)
        .and.not.match(/"error"|__error__/);
    }
  });

  it("prints a client that works as it stands", async () => {
    const [client = ""] = blocks("ts").filter((text) => text.includes("langgraph-sdk"));
    await writeFile(join(copy, "client.ts"), printed(client));

    const { stdout } = await run(process.execPath, ["client.ts"], { cwd: copy });

    expect(stdout).to.include("Remember the number 7.");
  });
});
