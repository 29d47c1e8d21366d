import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { Agent } from "../../components/agent.ts";
import { releaseNameOf } from "../../components/agent-names.ts";
import { agentImage } from "../../components/our-images.ts";
import { record } from "../support/pulumi-monitor.ts";

describe("the Kubernetes name of an agent", () => {
  it("is its graph id where that is one", () => {
    for (const graphId of ["assistant", "my-agent", "a", "a".repeat(53)]) {
      expect(releaseNameOf(graphId)).to.equal(graphId);
    }
  });

  it("is a name that Services and releases may have, whatever the graph id", () => {
    const ids = ["my_agent", "ReAct_Agent", "9lives", "A", "a__b", "0_0", "a".repeat(63), "X-_-X"];
    for (const graphId of ids) {
      expect(releaseNameOf(graphId), graphId)
        .to.match(/^[a-z]([a-z0-9-]*[a-z0-9])$/)
        .and.have.lengthOf.at.most(53);
    }
    expect(releaseNameOf("my_agent")).to.match(/^my-agent-[0-9a-f]{8}$/);
    expect(releaseNameOf("9lives")).to.match(/^agent-9lives-[0-9a-f]{8}$/);
  });

  it("is none of Kubernetes' own or the platform's in the agents' namespace", () => {
    for (const graphId of ["kubernetes", "platform", "platform-deny-all-agents"]) {
      expect(releaseNameOf(graphId)).to.match(new RegExp(`^${graphId}-[0-9a-f]{8}$`));
    }
  });

  it("is another one for every graph id", () => {
    const ids = ["a-b", "a_b", "A-b", "a--b", "a__b", `${"x".repeat(60)}1`, `${"x".repeat(60)}2`];
    expect(new Set(ids.map(releaseNameOf)).size).to.equal(ids.length);
  });

  it("stays the same from version to version, since an agent's data lie under it", () => {
    expect(releaseNameOf("my_agent")).to.equal("my-agent-e72c1a7c");
  });
});

describe("an agent whose graph lies elsewhere", () => {
  it("is refused with the folder that it has to be in: its image would have no graph", () => {
    for (const graph of ["./other/graph.ts:graph", "/checkout/agents/poet.ts:graph"]) {
      expect(() =>
        agentImage({ graphId: "poet", graph, file: "/checkout/agents/poet.ts" }, "worker:1", {
          checkout: "/checkout",
          agentContexts: "/checkout/contexts",
          version: "1",
          baseImage: "node",
          platform: undefined,
          registry: undefined,
        }),
      ).to.throw("its graph has to lie in /checkout/agents/poet, ");
    }
  });
});

describe("an agent whose graph id is no Kubernetes name", () => {
  const graphId = "My_Agent";
  const name = releaseNameOf(graphId);

  it("is released under its Kubernetes name and called by its graph id", async () => {
    const { resources } = await record({}, () => {
      new Agent(`agent-${graphId}`, {
        graphId,
        image: "registry.example.com/agent:1",
        namespace: "agents",
        platform: { release: "platform", namespace: "platform", agentsHost: "agents.example.com" },
        runtimeClassName: "gvisor",
        trustedCertificates: undefined,
        chartDirectory: "/charts",
      });
    });
    const chart = resources.find(({ type }) => type === "kubernetes:helm.sh/v4:Chart");
    expect(chart?.inputs).to.include({ name });
    expect(chart?.inputs.values).to.include({ graphId });
    expect(chart?.inputs.values).to.deep.include({
      deploymentAnnotations: {
        "pulumi.com/timeoutSeconds": "300",
        "config.kubernetes.io/depends-on": `networking.k8s.io/namespaces/agents/NetworkPolicy/${name}`,
      },
      serviceAnnotations: { "pulumi.com/timeoutSeconds": "300" },
    });
  });

  it("has an image that registries take, built of the file that declares it", async () => {
    const checkout = await mkdtemp(join(tmpdir(), "platform-agents-"));
    try {
      await cp(join(import.meta.dirname, "../../agents"), join(checkout, "agents"), {
        recursive: true,
      });
      const file = join(checkout, "agents/assistant.ts");
      const { resources } = await record({}, () => {
        agentImage({ graphId, graph: "./assistant/graph.ts:graph", file }, "worker:1", {
          checkout,
          agentContexts: join(checkout, "contexts"),
          version: "1",
          baseImage: "node",
          platform: undefined,
          registry: undefined,
        });
      });
      const built = resources.find(({ type }) => type === "docker:index/image:Image");
      expect(built?.inputs.imageName).to.match(new RegExp(`^platform\\.local/agent-${name}:1-`));
      expect(built?.inputs.build).to.deep.include({
        args: { WORKER_IMAGE: "worker:1", AGENT: "assistant" },
      });
    } finally {
      await rm(checkout, { recursive: true });
    }
  });
});
