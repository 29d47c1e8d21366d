import { expect } from "chai";
import { z } from "zod";
import { reachFrom } from "../support/agent-pod.ts";
import { ask, call, removeAgent, runBody, writeAgent } from "../support/cluster-agent.ts";
import { eventually } from "../support/eventually.ts";
import {
  disposeInstallation,
  type Installation,
  theInstallation,
} from "../support/installation.ts";

after(disposeInstallation);

const ASK_AGAIN_MS = 5_000;

describe("an agent file", () => {
  let installation: Installation;
  before(async () => {
    installation = await theInstallation();
  });

  async function installed(): Promise<void> {
    const { code, output, seconds } = await installation.install();
    expect(code, output).to.equal(0);
    console.log(`      ./install.sh took ${seconds.toFixed(1)} s`);
  }

  it("that is added is an agent that answers", async () => {
    await writeAgent(installation, "poet", "first edition");

    await installed();

    expect(await ask(installation, "poet", "hello")).to.include("first edition");
  });

  it("makes a pod that other agents can't reach", async () => {
    const address = await installation.kubectl(
      ...[
        "get",
        "pod",
        "-l",
        "platform.dev/graph-id=poet",
        "-o",
        "jsonpath={.items[0].status.podIP}",
      ],
    );

    const reached = await reachFrom(installation, "assistant", [
      `${address}:8000`,
      "poet.default.svc:8000",
    ]);

    expect(Object.values(reached)).to.deep.equal(["timeout", "timeout"]);
  });

  it("keeps its word when its pod is killed in the middle of a run", async () => {
    const thread = await record(call(installation, "/threads", "poet", {}));
    const runs = `/threads/${thread.thread_id}/runs`;
    const run = await record(call(installation, runs, "poet", runBody("poet", "slowly")));
    // A call may be lost with the pod that it went to; who asks again gets an answer.
    const status = async () => {
      try {
        const answer = await call(installation, `${runs}/${run.run_id}`, "poet", undefined, {
          timeoutMs: ASK_AGAIN_MS,
        });
        return answer.ok ? (await record(answer)).status : `${answer.status}`;
      } catch (error) {
        if (error instanceof DOMException && error.name === "TimeoutError") return "no answer";
        throw error;
      }
    };
    await eventually("the run is under way", async () => (await status()) === "running", 20_000);

    await installation.kubectl(
      ...["delete", "pod", "-l", "platform.dev/graph-id=poet", "--force", "--grace-period=0"],
    );

    await eventually("the run has ended well", async () => (await status()) === "success", 90_000);
    const answer = await call(installation, `/threads/${thread.thread_id}/state`, "poet");
    expect(await answer.text()).to.include("first edition");
  });

  it("that is changed rolls the pod, which answers anew", async () => {
    await writeAgent(installation, "poet", "second edition");

    await installed();

    expect(await ask(installation, "poet", "hello")).to.include("second edition");
  });

  it("that is removed takes Deployment, route, Secret and graph id with it", async () => {
    await removeAgent(installation, "poet");

    await installed();

    expect(await ask(installation, "poet", "hello")).to.match(/^404 \{"error":"not_found"/);
    await eventually(
      "nothing is left of the agent",
      async () =>
        (await installation.kubectl(
          ...["get", "deployments,httproutes,secrets,pods", "-l", "platform.dev/graph-id=poet"],
          ...["--all-namespaces", "-o", "name"],
        )) === "",
      60_000,
    );
  });
});

/** What names a thread or a run, and how it fares. */
async function record(answer: Response | Promise<Response>) {
  return z
    .object({ thread_id: z.string(), run_id: z.string().optional(), status: z.string() })
    .parse(await (await answer).json());
}
