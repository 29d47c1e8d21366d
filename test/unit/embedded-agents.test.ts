import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect } from "chai";
import { UserError } from "../../runtime/common/errors.ts";
import { readAgents, writeLanggraphConfig } from "../../runtime/embedded/agents.ts";

const CHECKOUT = resolve(import.meta.dirname, "../..");

describe("the agents folder", () => {
  let folder: string;

  beforeEach(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), "platform-agents-")));
    await writeFile(join(folder, "package.json"), '{"type": "module"}');
  });

  afterEach(() => rm(folder, { recursive: true, force: true }));

  const declare = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
  };
  const addGraph = async (name: string) => {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, "graph.ts"), "export const graph = {};");
  };
  const refusal = async (directory = folder): Promise<UserError> => {
    const error = await readAgents(CHECKOUT, directory).catch((reason) => reason);
    expect(error).to.be.instanceOf(UserError);
    return error;
  };

  it("becomes a langgraph.json with a graph for every file", async () => {
    for (const name of ["crow", "owl"]) {
      await addGraph(name);
      await declare(
        `${name}.ts`,
        `export default { graphId: "${name}", graph: "./${name}/graph.ts:graph" };`,
      );
    }
    const config = join(folder, "langgraph.json");

    await writeLanggraphConfig(config, await readAgents(CHECKOUT, folder));

    expect(JSON.parse(await readFile(config, "utf8"))).to.deep.equal({
      graphs: {
        crow: `${join(folder, "crow", "graph.ts")}:graph`,
        owl: `${join(folder, "owl", "graph.ts")}:graph`,
      },
    });
  });

  it("of this repository holds the assistant", async () => {
    const agents = await readAgents(CHECKOUT, join(CHECKOUT, "agents"));

    expect(agents.map(({ graphId }) => graphId)).to.include("assistant");
  });

  it("with one graph id twice is refused by the names of both files", async () => {
    await addGraph("owl");
    for (const name of ["a.ts", "b.ts"]) {
      await declare(name, 'export default { graphId: "owl", graph: "./owl/graph.ts:graph" };');
    }

    const { message } = await refusal();

    expect(message).to.include(join(folder, "a.ts")).and.include(join(folder, "b.ts"));
    expect(message).to.include("owl");
  });

  it("with a declaration that leaves a timer running is read all the same", async () => {
    await addGraph("owl");
    await declare(
      "owl.ts",
      'setInterval(() => {}, 1000); export default { graphId: "owl", graph: "./owl/graph.ts:graph" };',
    );

    const [owl] = await readAgents(CHECKOUT, folder);

    expect(owl).to.include({ graphId: "owl" });
  });

  for (const [what, text] of [
    ["waits for ever", "setInterval(() => {}, 1000); await new Promise(() => {});"],
    ["computes for ever", "for (;;);"],
  ] as const) {
    it(`with a declaration that ${what} is refused in time by the file's name`, async () => {
      await declare("owl.ts", `${text} export default {};`);
      const waits = new Set<string>();

      const error = await readAgents(CHECKOUT, folder, (what) => waits.add(what), 1_000).catch(
        (reason) => reason,
      );

      expect(error).to.be.instanceOf(UserError);
      expect(error.message).to.include(join(folder, "owl.ts")).and.include("within 1 s");
      expect([...waits]).to.deep.equal(["for owl.ts"]);
    });
  }

  for (const [when, execPath] of [
    ["at once", "\0"],
    ["a little later", "/nowhere/node"],
  ] as const) {
    it(`says so in a sentence where the process that reads it fails to start, ${when}`, async () => {
      await declare("owl.ts", "export default {};");
      const { execPath: own } = process;
      process.execPath = execPath;
      try {
        const { message, hint } = await refusal();

        expect(message).to.match(/^The process that reads .+ can't be started: .+\.$/);
        expect(hint).to.include("memory");
      } finally {
        process.execPath = own;
      }
    });
  }

  it("that is empty is refused", async () => {
    expect((await refusal()).message).to.include(folder);
  });

  it("that does not exist is refused", async () => {
    const { hint } = await refusal(join(folder, "nowhere"));

    expect(hint).to.include("--agents");
  });

  for (const [what, text, says] of [
    [
      "whose graph is missing",
      '{ graphId: "owl", graph: "./owl/graph.ts:graph" }',
      "does not exist",
    ],
    ["whose graph lies elsewhere", '{ graphId: "owl", graph: "../owl.ts:graph" }', "outside"],
    [
      "whose graph id is no name",
      '{ graphId: "The Owl", graph: "./owl/graph.ts:graph" }',
      "graphId",
    ],
    ["without a graph", '{ graphId: "owl" }', "graph"],
    ["with an unknown key", '{ graphId: "owl", graph: "./o.ts:g", key: "sk" }', "key"],
    ["that exports nothing", "undefined", "expected object"],
    ["that can't be loaded", "(() => { throw new Error('no luck') })()", "no luck"],
    ["that ends its process", "process.exit(0)", "ended the process"],
    [
      "that reads files",
      'process.getBuiltinModule("fs").readFileSync("/etc/passwd")',
      "restricted",
    ],
  ] as const) {
    it(`with a declaration ${what} is refused by the file's name`, async () => {
      await declare("owl.ts", `export default ${text};`);

      const { message } = await refusal();

      expect(message).to.include(join(folder, "owl.ts")).and.include(says);
    });
  }
});
