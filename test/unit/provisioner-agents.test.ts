import { expect } from "chai";
import { releaseNameOf } from "../../components/agent-names.ts";
import {
  type Deployment,
  deployment,
  readAgentRequest,
} from "../../runtime/provisioner/agent-request.ts";
import { provisionerRules } from "../../runtime/provisioner/rbac.ts";
import { olderRival } from "../../runtime/provisioner/rivals.ts";
import { isRolledOut } from "../../runtime/provisioner/rollout.ts";

function agent(
  name: string,
  changes: { graphId?: string; createdAt?: string; annotations?: object; status?: object } = {},
): Deployment {
  const { graphId = name, createdAt = "2024-01-01T00:00:00Z", annotations, status } = changes;
  return deployment.parse({
    metadata: {
      name,
      namespace: "default",
      uid: `uid-${name}`,
      creationTimestamp: createdAt,
      generation: 2,
      labels: { "platform.dev/graph-id": graphId },
      ...(annotations !== undefined && { annotations }),
    },
    spec: { replicas: 2, template: {} },
    status,
  });
}

describe("what a Deployment asks for", () => {
  it("is read with the standard values where nothing is said", () => {
    expect(readAgentRequest(agent("assistant"))).to.include({
      graphId: "assistant",
      tenant: "default",
      redisPrefix: "aegra:assistant",
      rotation: undefined,
      graceMs: 30_000,
    });
  });

  it("takes graph ids as LangGraph projects have them", () => {
    for (const graphId of ["my_agent", "ReAct-Agent", "9lives", "a".repeat(63)]) {
      expect(readAgentRequest(agent("assistant", { graphId }))).to.include({
        graphId,
        redisPrefix: `aegra:${graphId}`,
      });
    }
  });

  it("is refused with a graph id that is none", () => {
    for (const graphId of ["", "_agent", "agent_", "my agent", "a:b", "a*", "a".repeat(64)]) {
      const read = readAgentRequest(agent("assistant", { graphId }));
      expect(read, graphId).to.have.property("refused").that.includes("is not a graph id");
    }
  });

  it("has names of its own in the database where graph ids differ by a sign only", () => {
    const names = ["a-b", "a_b", "A_b", "a--b"].map((graphId) => {
      const read = readAgentRequest(agent(releaseNameOf(graphId), { graphId }));
      return "refused" in read ? read.refused : read.name;
    });
    expect(new Set(names).size).to.equal(names.length);
    for (const name of names) expect(name).to.match(/^agent_[a-z0-9_]{1,48}$/);
  });

  it("is refused where a value is not valid", () => {
    for (const [annotations, word] of [
      [{ "platform.dev/tenant": "" }, "tenant"],
      [{ "platform.dev/redis-prefix": "aegra:*" }, "aegra:<name>"],
      [{ "platform.dev/redis-prefix": "aegra:a:b" }, "aegra:<name>"],
      [{ "platform.dev/credentials-secret": "other" }, "assistant-credentials"],
    ] as const) {
      const read = readAgentRequest(agent("assistant", { annotations }));
      expect(read).to.have.property("refused").that.includes(word);
    }
  });
});

describe("the older of two that ask for the same", () => {
  const older = agent("older", { graphId: "same", createdAt: "2024-01-01T00:00:00Z" });
  const younger = agent("younger", { graphId: "same", createdAt: "2024-01-02T00:00:00Z" });

  it("is found from the younger, not the other way round", () => {
    expect(olderRival(younger, [older, younger])).to.equal(older);
    expect(olderRival(older, [older, younger])).to.equal(undefined);
  });

  it("is the first by name where both are of one age", () => {
    const twin = agent("a-twin", { graphId: "same", createdAt: "2024-01-01T00:00:00Z" });
    expect(olderRival(older, [twin, older])).to.equal(twin);
    expect(olderRival(twin, [twin, older])).to.equal(undefined);
  });

  it("is none of those that ask for something else, or are being deleted", () => {
    const leaving = agent("leaving", { graphId: "same", createdAt: "2023-01-01T00:00:00Z" });
    leaving.metadata.deletionTimestamp = new Date();
    expect(olderRival(older, [leaving, agent("different")])).to.equal(undefined);
  });
});

describe("a rollout", () => {
  const done = { observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2 };

  it("is complete when all pods are of the newest template and answer", () => {
    expect(isRolledOut(agent("a", { status: done }))).to.equal(true);
  });

  it("is not complete while anything of that is not so", () => {
    for (const change of [
      { observedGeneration: 1 },
      { replicas: 3 },
      { updatedReplicas: 1 },
      { availableReplicas: 1 },
      { replicas: 1, updatedReplicas: 1, availableReplicas: 1 },
    ]) {
      expect(isRolledOut(agent("a", { status: { ...done, ...change } }))).to.equal(false);
    }
    expect(isRolledOut(agent("a"))).to.equal(false);
  });
});

describe("the provisioner's rights in the cluster", () => {
  it("let it read a Secret that it knows, and list or delete none", () => {
    const rules = provisionerRules().filter(({ resources }) => resources.includes("secrets"));
    expect(rules.flatMap(({ verbs }) => verbs).sort()).to.deep.equal(["create", "get", "update"]);
  });

  it("name no wildcard", () => {
    expect(JSON.stringify(provisionerRules())).not.to.include("*");
  });
});
