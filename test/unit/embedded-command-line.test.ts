import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect } from "chai";
import { UserError } from "../../runtime/common/errors.ts";
import { readArguments } from "../../runtime/embedded/arguments.ts";
import { ConsoleOutput } from "../../runtime/embedded/console-output.ts";
import { PROVIDER_VARIABLES } from "../../runtime/model-gateway/providers/registry.ts";

describe("the command line of the embedded installation", () => {
  it("keeps the data in the checkout and serves on 8088 unless told otherwise", () => {
    expect(readArguments(["--embedded"], "/checkout")).to.deep.include({
      port: 8088,
      data: "/checkout/.platform",
      agents: "/checkout/agents",
      demo: false,
    });
  });

  it("takes directories from where the reader stands", () => {
    const { data } = readArguments(["--data", "here"], "/checkout");

    expect(data).to.equal(resolve("here"));
  });

  for (const args of [["--bogus"], ["--port"], ["--port", "http"], ["--port=0"], ["x"]]) {
    it(`refuses ${args.join(" ")} by its name, as a mistake of usage`, () => {
      try {
        readArguments(args, "/checkout");
        expect.fail("accepted");
      } catch (error) {
        expect(error).to.be.instanceOf(UserError);
        expect((error as UserError).message).to.include(args.at(-1)?.replace("=0", ""));
        expect((error as UserError).exitCode).to.equal(2);
      }
    });
  }

  it("knows the same providers in install.sh as the model gateway does", async () => {
    const script = await readFile(resolve(import.meta.dirname, "../../install.sh"), "utf8");

    expect(script.match(/^PROVIDERS="(.*)"$/m)?.[1]?.split(" ")).to.deep.equal(PROVIDER_VARIABLES);
  });
});

describe("the progress of the embedded installation", () => {
  const outputOf = (isTTY: boolean, environment: NodeJS.ProcessEnv) => {
    let text = "";
    const output = new ConsoleOutput(
      {
        isTTY,
        write(chunk: unknown) {
          text += String(chunk);
          return true;
        },
      },
      environment,
    );
    return { output, text: () => text };
  };

  it("is coloured on a terminal", () => {
    const { output, text } = outputOf(true, {});

    output.done("Worker ready");

    expect(text()).to.equal("\u001b[32m✓\u001b[0m Worker ready\n");
  });

  for (const [where, isTTY, environment] of [
    ["with NO_COLOR", true, { NO_COLOR: "1" }],
    ["in a file", false, {}],
  ] as const) {
    it(`is plain ${where}`, () => {
      const { output, text } = outputOf(isTTY, environment);

      output.done("Worker ready");

      expect(text()).to.equal("✓ Worker ready\n");
    });
  }

  it("says in a file, every five seconds, what it waits for and for how long", async () => {
    const { output, text } = outputOf(false, {});

    await output.step("Worker", async (onWaiting) => {
      for (let waitedMs = 0; waitedMs <= 10_000; waitedMs += 100) onWaiting("to listen", waitedMs);
      return { title: "Worker" };
    });

    expect(text()).to.match(
      /^… Worker: waiting to listen \(5\.0 s\)\n… Worker: waiting to listen \(10\.0 s\)\n✓ Worker ready \(\d+\.\d s\)\n$/,
    );
  });
});
