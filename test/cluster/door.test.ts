import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { call, runBody, spanNames } from "../support/cluster-agent.ts";
import { eventually } from "../support/eventually.ts";
import {
  CLUSTER_NAME,
  disposeInstallation,
  type Installation,
  theInstallation,
} from "../support/installation.ts";
import { paste } from "../support/platform-process.ts";

after(disposeInstallation);

describe("./install.sh on a cluster", () => {
  let installation: Installation;
  let output: string;
  before(async () => {
    installation = await theInstallation();
    output = (await installation.installed()).output;
  });

  it("ends with the cluster's name, the URLs and how to go on", () => {
    expect(output).to.include(`\nPlatform is deployed on cluster ${CLUSTER_NAME}.\n`);
    for (const text of [
      installation.url,
      `http://traces.localhost:${installation.port}`,
      `agentctl env add local --kube-context kind-${CLUSTER_NAME} --namespace default`,
      "agentctl env use local",
    ]) {
      expect(output).to.include(text);
    }
  });

  it("prints calls that answer when they are pasted", async () => {
    const commands = output.match(/^curl (?:.*\\\n)+.*/gm) ?? [];

    expect(commands).to.have.length(2);
    for (const command of commands) {
      expect(await paste(command), command)
        .to.match(/demo/)
        .and.not.match(/"error"|__error__/);
    }
  });

  it("streams a run through the sandboxed worker", async () => {
    const answer = await call(installation, "/runs/stream", "assistant", {
      ...runBody("assistant", "Say hello."),
      stream_mode: ["messages-tuple"],
    });
    const text = await answer.text();

    expect(answer.headers.get("content-type")).to.match(/^text\/event-stream/);
    expect(text)
      .to.match(/^id: .*\nevent: metadata/)
      .and.include("event: messages")
      .and.include("demo");
  });

  it("changes nothing when it is run again, nor does a plain pulumi up", async () => {
    const uids = () =>
      installation.kubectl(
        ...["get", "pods,deployments,secrets,jobs", "--all-namespaces"],
        ...["-o", 'jsonpath={range .items[*]}{.metadata.uid}{"\\n"}{end}'],
      );
    const before = await uids();

    const again = await installation.install();
    const plain = await installation.pulumi("up", "--stack", "local", "--yes", "--skip-preview");

    expect(again.code, again.output).to.equal(0);
    expect(again.output).not.to.match(/image:|deployment:|proof/);
    expect(plain).to.match(/Resources:\n +\d+ unchanged\n/);
    expect(await uids()).to.equal(before);
    console.log(`      ./install.sh took ${again.seconds.toFixed(1)} s`);
  });

  it("traces a run from the door to the model, in one trace of the project Platform", async () => {
    const traceId = randomBytes(16).toString("hex");
    await call(installation, "/runs/wait", "assistant", runBody("assistant", "Say hello."), {
      headers: { traceparent: `00-${traceId}-b7ad6b7169203331-01` },
    });

    await eventually(
      "spans of gateway, worker and model gateway are in Phoenix",
      async () => {
        const names = await spanNames(installation, traceId);
        return ["assistant", "run assistant", "POST /v1/chat/completions"].every((name) =>
          names.includes(name),
        );
      },
      60_000,
    );
  });
});
