import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect } from "chai";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { ask } from "../support/cluster-agent.ts";
import { eventually } from "../support/eventually.ts";
import {
  CLUSTER_NAME,
  disposeInstallation,
  type Installation,
  NODE,
  outcome,
  theInstallation,
} from "../support/installation.ts";

after(disposeInstallation);

const run = promisify(execFile);
const INTERRUPTED = 130;

/** The id of the container that is the node; empty where there is none. */
async function node(): Promise<string> {
  const { stdout } = await run("docker", ["ps", "-q", "--filter", `name=${NODE}`]);
  return stdout.trim();
}

describe("installing again", () => {
  let installation: Installation;
  before(async () => {
    installation = await theInstallation();
  });

  it("refuses another cluster in the place of this one, whose data would be lost", async () => {
    const nodeId = await node();
    const other = String(await freePort());

    const { code, output } = await outcome(installation.startInstall("--port", other));

    expect(code).to.equal(1);
    expect(output).to.include(`hostPort changes from ${installation.port} to ${other}`);
    expect(await node()).to.equal(nodeId);
    expect(await ask(installation, "assistant", "Say hello.")).to.include("demo");
  });

  it("heals a cluster that was deleted by hand, even after Ctrl-C in the middle of it", async () => {
    await run("kind", ["delete", "cluster", "--name", CLUSTER_NAME]);

    const interrupted = installation.startInstall();
    const end = outcome(interrupted);
    let nodeId = "";
    await eventually(
      "the cluster is being made",
      async () => {
        nodeId = await node();
        return nodeId !== "";
      },
      120_000,
    );
    process.kill(-(interrupted.pid ?? 0), "SIGINT");
    const stopped = await end;
    const healed = await installation.install();

    expect(stopped.code, stopped.output).to.equal(INTERRUPTED);
    expect(stopped.output).to.include("Run ./install.sh again");
    expect(healed.code, healed.output).to.equal(0);
    expect(await ask(installation, "assistant", "Say hello.")).to.include("demo");
    console.log(`      ./install.sh took ${healed.seconds.toFixed(1)} s`);
  });
});
