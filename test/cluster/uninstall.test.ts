import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect } from "chai";
import {
  disposeInstallation,
  dockerNetworks,
  type Installation,
  NODE,
  theInstallation,
} from "../support/installation.ts";

after(disposeInstallation);

const run = promisify(execFile);

describe("./install.sh --uninstall", () => {
  let installation: Installation;
  before(async () => {
    installation = await theInstallation();
  });

  it("leaves no container, no network and no file outside .platform", async () => {
    const { code, output, seconds } = await installation.uninstall();

    expect(code, output).to.equal(0);
    const containers = await run("docker", ["ps", "--all", "--format", "{{.Names}}"]);
    expect(containers.stdout.split("\n")).not.to.include(NODE);
    expect(await dockerNetworks()).to.have.members(installation.networksBefore);
    expect(await installation.differences()).to.equal("");
    console.log(`      ./install.sh --uninstall took ${seconds.toFixed(1)} s`);
  });

  it("is fine where nothing is installed", async () => {
    const { code, output } = await installation.uninstall();

    expect(code, output).to.equal(0);
  });
});
