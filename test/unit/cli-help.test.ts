import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect } from "chai";
import { commands } from "../../cli/commands/commands.ts";
import { serverSentEvents } from "../../cli/server-sent-events.ts";
import { CliBench } from "../support/cli.ts";
import { collect } from "../support/collect.ts";

describe("agentctl", () => {
  let bench: CliBench;

  beforeEach(async () => {
    bench = await CliBench.make();
  });

  afterEach(() => bench.remove());

  for (const words of [[], ["--help"], ["-h"], ["help"]]) {
    it(`lists all commands for "agentctl ${words.join(" ")}"`, async () => {
      const { code, output } = await bench.run(...words);
      expect(code).to.equal(0);
      for (const { name, description } of commands) {
        const line = output.split("\n").find((each) => each.startsWith(`  ${name} `));
        expect(line).to.include(description);
      }
    });
  }

  for (const { name, options, positionals } of commands) {
    it(`explains ${name} and all its options`, async () => {
      const { code, output } = await bench.run(...name.split(" "), "--help");
      expect(code).to.equal(0);
      expect(output).to.include(`Usage: agentctl ${name}`);
      for (const option of Object.keys(options)) expect(output).to.include(`--${option} `);
      for (const positional of positionals) expect(output).to.include(`<${positional}>`);
    });
  }

  it("lists the commands of a group", async () => {
    const { output } = await bench.run("env", "--help");
    expect(output).to.include("env list").and.not.include("Run a deployed agent");
    expect((await bench.run("env")).output).to.equal(output);
  });

  it("tells its version, which is the platform's", async () => {
    expect((await bench.run("--version")).output).to.equal("2.3.1\n");
    const versions = await Promise.all(
      ["package.json", "cli/package.json"].map(async (path) => {
        const text = await readFile(resolve(import.meta.dirname, "../..", path), "utf8");
        return JSON.parse(text).version;
      }),
    );
    expect(new Set(versions)).to.deep.equal(new Set(["2.3.1"]));
  });

  for (const [words, says] of [
    [["frobnicate"], "There is no command frobnicate."],
    [["env", "remove"], "There is no command env remove."],
    [["--frobnicate"], "There is no option --frobnicate here."],
  ] as const) {
    it(`refuses "agentctl ${words.join(" ")}" and names what there is`, async () => {
      const { code, errors } = await bench.run(...words);
      expect(code).to.equal(2);
      expect(errors).to.include(says).and.include("env add, env use, env list, run");
    });
  }

  it("shows the stack of an error only when asked to", async () => {
    expect((await bench.run("env", "use", "x")).errors).to.not.include("at ");
    expect((await bench.run("env", "use", "x", "--verbose")).errors).to.match(/\n {4}at .*env-use/);
  });
});

describe("a stream of server-sent events", () => {
  const read = (...chunks: string[]) =>
    collect(
      serverSentEvents(
        (async function* () {
          for (const chunk of chunks) yield Buffer.from(chunk, "latin1");
        })(),
      ),
    );

  it("is read whatever its line ends and wherever its chunks are cut", async () => {
    const text =
      ": hi\r\n\r\nevent: a\r\ndata: 1\r\ndata: 2\r\n\r\ndata:3\n\nevent: cut\ndata: off";
    const expected = [
      { event: "a", data: "1\n2" },
      { event: "message", data: "3" },
    ];
    expect(await read(text)).to.deep.equal(expected);
    expect(await read(...text)).to.deep.equal(expected);
    expect(await read("data: 1\r\rdata: 2\r\r")).to.have.lengthOf(2);
  });

  it("may cut a letter in two", async () => {
    const [first, second] = [Buffer.from("é").subarray(0, 1), Buffer.from("é").subarray(1)];
    const chunks = ["data: ", first.toString("latin1"), second.toString("latin1"), "\n\n"];
    expect(await read(...chunks)).to.deep.equal([{ event: "message", data: "é" }]);
  });
});
