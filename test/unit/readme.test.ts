import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect } from "chai";
import { KIND_RELEASE } from "../../components/artifacts.ts";
import { ROTATE_ANNOTATION } from "../../runtime/provisioner/names.ts";

describe("the README's part on clusters", () => {
  const readme = readFileSync(resolve(import.meta.dirname, "../../README.md"), "utf8");

  it("names the release of kind that our messages send users to it for", () => {
    expect(readme).to.include(`kind ${KIND_RELEASE}`);
  });

  it("rotates credentials by the annotation that the provisioner reads", () => {
    expect(readme).to.match(new RegExp(`annotate deployment .*${ROTATE_ANNOTATION}="`, "s"));
  });
});
