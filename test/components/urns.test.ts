import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { urnTable } from "./urn-table.ts";

describe("the names of a stack's resources", () => {
  it("stay, or the change is written down: npx node test/components/write-urns.ts", async () => {
    const written = readFileSync(join(import.meta.dirname, "urns.txt"), "utf8").split("\n");
    const now = (await urnTable()).split("\n");
    expect(
      written.filter((urn) => !now.includes(urn)),
      "gone: objects of installed stacks would be deleted",
    ).to.deep.equal([]);
    expect(
      now.filter((urn) => !written.includes(urn)),
      "new",
    ).to.deep.equal([]);
    expect(new Set(now)).to.have.length(now.length);
  });
});
