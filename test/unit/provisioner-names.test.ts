import { expect } from "chai";
import { agentName, loginName } from "../../runtime/provisioner/names.ts";

describe("an agent's database names", () => {
  it("fit in PostgreSQL's 63 bytes, however long namespace and release are", () => {
    const name = agentName("n".repeat(63), "r".repeat(253));
    expect(loginName(name, 999_999_999)).to.have.length.at.most(63);
  });

  it("are plain identifiers", () => {
    expect(agentName("team-b", "my.agent-2")).to.match(/^agent_team_b_my_agent_2_[0-9a-f]{16}$/);
  });

  it("differ where only the place of a boundary differs, or what is cut off", () => {
    const names = [
      agentName("a-b", "c"),
      agentName("a", "b-c"),
      agentName("a", "b.c"),
      agentName("a", `${"x".repeat(60)}1`),
      agentName("a", `${"x".repeat(60)}2`),
    ];
    expect(new Set(names).size).to.equal(names.length);
  });

  it("stay the same from version to version, since data lie under them", () => {
    expect(agentName("default", "assistant")).to.equal("agent_default_assistant_919d12d45d5b1ba1");
  });
});
