import { execFile } from "node:child_process";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { readAgents } from "../../runtime/embedded/agents.ts";
import { confinement } from "../../runtime/embedded/worker-permissions.ts";

const run = promisify(execFile);
const CHECKOUT = resolve(import.meta.dirname, "../..");

describe("an agent in the embedded way", () => {
  let directory: string;
  let agents: string;

  before(async () => {
    directory = await realpath(await mkdtemp(join(tmpdir(), "platform-test-")));
    agents = join(directory, "agents");
    await mkdir(agents);
    await writeFile(join(directory, "secrets.json"), "{}");
  });

  after(() => rm(directory, { recursive: true, force: true }));

  /** Runs a line as an agent's code; what it printed, or the code of its error. */
  const asAgent = async (line: string) => {
    const file = join(agents, "probe.ts");
    await writeFile(
      file,
      `try { ${line} } catch (error) { console.log((error as { code?: string }).code); }\nexport {};`,
    );
    const { stdout } = await run(process.execPath, [...confinement(CHECKOUT, agents), file]);
    return stdout.trim();
  };

  for (const [what, line] of [
    ["read /etc/passwd", "(await import('node:fs')).readFileSync('/etc/passwd')"],
    ["read the secrets beside it", "(await import('node:fs')).readFileSync('../secrets.json')"],
    [
      "list the home directory",
      "(await import('node:fs')).readdirSync((await import('node:os')).homedir())",
    ],
    ["write a file", "(await import('node:fs')).writeFileSync('written', 'x')"],
    [
      "write over its own code",
      "(await import('node:fs')).writeFileSync(import.meta.filename, 'x')",
    ],
    ["start a process", "(await import('node:child_process')).execSync('id')"],
    ["start a thread", "new (await import('node:worker_threads')).Worker('1', { eval: true })"],
    ["load native code", "process.dlopen({ exports: {} }, '/lib/libc.so.6')"],
    ["open the inspector", "(await import('node:inspector')).open(0)"],
  ] as const) {
    it(`can't ${what}`, async () => {
      expect(await asAgent(`${line}; console.log('done');`)).to.match(
        /^ERR_(?:ACCESS_DENIED|DLOPEN_DISABLED)$/,
      );
    });
  }

  it("finds no SQLite, which opens files without asking", async () => {
    expect(await asAgent("await import('node:sqlite'); console.log('done');")).to.equal(
      "ERR_UNKNOWN_BUILTIN_MODULE",
    );
  });

  it("declares itself in a process that opens no debugger", async () => {
    const declaration = {
      graph: "./probe.ts:graph",
      graphId: "__FLAG__",
    };
    const text = JSON.stringify(declaration).replace(
      '"__FLAG__"',
      'process.execArgv.includes("--disable-sigusr1") ? "closed" : "open"',
    );
    const folder = join(directory, "declared");
    await mkdir(folder);
    await writeFile(join(folder, "probe.ts"), `export const graph = {}; export default ${text};`);

    const [agent] = await readAgents(CHECKOUT, folder);

    expect(agent?.graphId).to.equal("closed");
  });

  it("can read its own code and load the packages of the platform", async () => {
    const packages = JSON.stringify(
      join(CHECKOUT, "node_modules/@langchain/langgraph/dist/index.js"),
    );

    const said = await asAgent(
      `(await import('node:fs')).readFileSync(import.meta.filename); await import(${packages}); console.log('done');`,
    );

    expect(said).to.equal("done");
  });
});
