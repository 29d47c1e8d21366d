import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect } from "chai";
import type { UserError } from "../../runtime/common/errors.ts";
import { graphOf, loadGraphs } from "../../runtime/worker/graphs.ts";
import { failureOf } from "../support/failure.ts";

const FIXTURES = resolve(import.meta.dirname, "../fixtures/worker-graphs");

describe("the graphs of a langgraph.json", () => {
  const kinds = join(FIXTURES, "kinds.ts");
  let directory: string;

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "platform-graphs-"));
  });
  after(() => rm(directory, { recursive: true, force: true }));

  it("may be exported compiled, uncompiled, by a function or a promise, or as an agent", async () => {
    const graphs = await loadGraphs(join(FIXTURES, "langgraph.json"));
    for (const kind of ["compiled", "uncompiled", "made", "promised", "agent"]) {
      const graph = await graphs.get(kind)?.graph({ configurable: {} });
      expect(await graph?.invoke({ count: 1 }), kind).to.deep.equal({ count: 2 });
    }
  });

  it("exported by a function are made for each configuration, not once", async () => {
    const graphs = await loadGraphs(join(FIXTURES, "langgraph.json"));
    for (const [step, count] of [
      [3, 4],
      [10, 11],
    ]) {
      const graph = await graphs.get("configured")?.graph({ configurable: { step } });
      expect(await graph?.invoke({ count: 1 })).to.deep.equal({ count });
    }
  });

  it("exported by a function that makes none are told as such when they are needed", async () => {
    const file = join(directory, "langgraph.json");
    await writeFile(file, JSON.stringify({ graphs: { a: `${kinds}:makeNothing` } }));
    const graphs = await loadGraphs(file);
    const failure = await failureOf(graphOf(graphs, "a").graph({ configurable: {} }));
    expect(failure.message).to.match(/Graph a: .*exports no graph named makeNothing/);
  });

  async function refusal(config: unknown): Promise<UserError> {
    const file = join(directory, "langgraph.json");
    await writeFile(file, typeof config === "string" ? config : JSON.stringify(config));
    const failure = await failureOf(loadGraphs(file));
    expect(failure.name).to.equal("UserError");
    return failure;
  }
  for (const [what, config, message] of [
    ["is not JSON", "{", /langgraph\.json can't be read/],
    ["has no graphs", {}, /graphs/],
    ["names no graph", { graphs: {} }, /must name at least one graph/],
    ["names no export", { graphs: { a: "./a.ts" } }, /must look like \.\/file\.ts:export/],
    ["has an id with a slash", { graphs: { "a/b": "./a.ts:a" } }, /letters, digits/],
    ["names a file that is missing", { graphs: { a: "./none.ts:graph" } }, /Graph a: .*none\.ts/],
    ["names an export that is missing", { graphs: { a: `${kinds}:none` } }, /named none/],
    ["names an export that is no graph", { graphs: { a: `${kinds}:nothing` } }, /named nothing/],
    [
      "names a file that fails",
      { graphs: { a: `${join(FIXTURES, "broken.ts")}:graph` } },
      /Graph a: .*no key for the weather/,
    ],
  ] as const) {
    it(`are refused with a hint where it ${what}`, async () => {
      const { message: said, hint } = await refusal(config);
      expect(said).to.match(message);
      expect(hint).to.be.a("string").and.not.equal("");
    });
  }

  it("are refused where there is no such file", async () => {
    const failure = await failureOf(loadGraphs(join(directory, "missing.json")));
    expect(failure.message).to.match(/missing\.json can't be read/);
  });
});
