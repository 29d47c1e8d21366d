import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { assembleAgent } from "../../runtime/worker/assemble-agent.ts";
import { failureOf } from "../support/failure.ts";

describe("the layout of an agent's image", () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "platform-agent-"));
    await mkdir(join(directory, "shop"));
    await writeFile(join(directory, "shop", "graph.ts"), "export const graph = {};\n");
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  async function declare(declaration: object): Promise<string> {
    const file = join(directory, "shop.ts");
    await writeFile(file, `export default ${JSON.stringify(declaration)};\n`);
    return file;
  }

  it("is the folder of its graph, and a langgraph.json that names it", async () => {
    const file = await declare({ graphId: "web-shop", graph: "./shop/graph.ts:graph" });
    const target = join(directory, "out");
    await assembleAgent(file, target);
    expect(JSON.parse(await readFile(join(target, "langgraph.json"), "utf8"))).to.deep.equal({
      graphs: { "web-shop": "./shop/graph.ts:graph" },
    });
    expect(await readFile(join(target, "shop", "graph.ts"), "utf8")).to.include("graph");
  });

  it("is refused where the declaration is not valid", async () => {
    const file = await declare({ graphId: "Not Valid", graph: "./shop/graph.ts:graph" });
    expect((await failureOf(assembleAgent(file, join(directory, "out")))).message).to.include(
      "graphId: use 1 to 63 letters",
    );
  });

  it("is refused where the graph lies elsewhere", async () => {
    const outside = await declare({ graphId: "shop", graph: "../graph.ts:graph" });
    expect((await failureOf(assembleAgent(outside, join(directory, "out")))).message).to.include(
      "has to lie in the folder shop",
    );
  });

  it("is refused where the graph is not there", async () => {
    const missing = await declare({ graphId: "shop", graph: "./shop/other.ts:graph" });
    expect((await failureOf(assembleAgent(missing, join(directory, "out")))).message).to.include(
      "does not exist",
    );
  });
});
