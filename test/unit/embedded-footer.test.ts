import { expect } from "chai";
import { deployedLine, footer } from "../../runtime/embedded/footer.ts";

const text = footer({
  port: 9000,
  graphIds: ["assistant", "it's-mine"],
  defaultModel: "openai/gpt-4o-mini",
  demo: false,
  token: "local-dev-token",
  console: { email: "admin@localhost", password: "generated" },
  dataDirectory: ".platform",
  logs: ".platform/logs",
});

describe("the footer of the embedded installation", () => {
  it("follows a line that says what was deployed and where the data is", () => {
    expect(deployedLine(".platform")).to.equal(
      "Platform is deployed (embedded, data in .platform/).",
    );
  });

  it("names the doors, all on the one port", () => {
    expect(text).to.include("http://localhost:9000 ");
    expect(text).to.include("http://localhost:9000/v1");
    expect(text).to.include("http://localhost:9000/traces");
  });

  it("lists the graph ids a line each, so that each can be copied", () => {
    expect(text).to.match(/^ {2}Graph ids +assistant\n +it's-mine$/m);
  });

  it("says how to sign in to the traces, where data and logs are, and how to stop", () => {
    expect(text).to.include("admin@localhost").and.include("generated");
    expect(text).to.include(".platform/logs").and.include("Ctrl-C");
  });

  it("says plainly that agents are not in a sandbox", () => {
    expect(text).to.include("permission model only").and.include("not a sandbox");
  });

  it("shows a run with everything that the front door asks for", () => {
    const body = JSON.parse(text.match(/runs\/wait[\s\S]*?-d '(.*)'/)?.[1] ?? "");

    expect(body.assistant_id).to.equal("assistant");
    expect(body.input.messages[0].role).to.equal("human");
    expect(text).to.include("-H 'Authorization: Bearer local-dev-token'");
    expect(text).to.include("-H 'X-Graph-ID: assistant'");
  });

  it("asks the default model", () => {
    const body = JSON.parse(text.match(/chat\/completions[\s\S]*?-d '(.*)'/)?.[1] ?? "");

    expect(body.model).to.equal("openai/gpt-4o-mini");
  });
});
