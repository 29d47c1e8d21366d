import { expect } from "chai";
import { Progress } from "../../installer/progress.ts";
import { ConsoleOutput } from "../../runtime/embedded/console-output.ts";

const MISTAKE = `<{%fg 1%}>Running program '/checkout/index.ts' failed with an unhandled exception:
UserError: agents/poet.ts declares no agent: its graph does not exist.
    at invalid (file:///checkout/runtime/embedded/agents.ts:148:10)
    at async file:///checkout/index.ts:28:16 { code: 'agent_declaration' }<{%reset%}>`;

describe("the errors of an update", () => {
  const errorsOf = (...messages: string[]) => {
    const progress = new Progress(new ConsoleOutput({ write: () => true }, {}));
    for (const message of messages) {
      const diagnosticEvent = { severity: "error" as const, message, color: "never" };
      progress.handle({ sequence: 1, timestamp: 1, diagnosticEvent });
    }
    progress.end();
    return progress.errors;
  };

  it("say what a user's mistake is, and nothing of where in our code it was found", () => {
    expect(errorsOf(MISTAKE)).to.deep.equal([
      "agents/poet.ts declares no agent: its graph does not exist.",
    ]);
  });

  it("show all of another one, and leave out that the update failed", () => {
    const bug = "TypeError: x is not a function\n    at file:///checkout/index.ts:1:1";
    expect(errorsOf(bug, "update failed")).to.deep.equal([bug]);
  });
});
