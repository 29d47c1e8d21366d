import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { Provisioning } from "../support/provisioning.ts";

const PREFIX = "platform.dev/redis-prefix";
const BOTH = { namespaces: ["default", "team-b"] };
const OLD = "2024-01-01T00:00:00Z";
const NEW = "2024-06-01T00:00:00Z";

describe("Agents that ask for the same", () => {
  const platform = Provisioning.install();

  const refusal = async (name: string, namespace = "default") => {
    const [message] = await platform.events(name, "CredentialsFailed", 1, namespace);
    return message;
  };

  it("a graph id that is taken is refused by name of its owner", async () => {
    await platform.start(BOTH);
    platform.agents.apply("shop");
    await platform.environment("shop");
    platform.agents.apply("copycat", { namespace: "team-b", graphId: "shop" });
    expect(await refusal("copycat", "team-b")).to.equal(
      "Graph id shop or prefix aegra:shop belongs to Deployment default/shop: choose another, or remove that one.",
    );
    expect(platform.agents.environment("copycat", "team-b")).to.equal(undefined);
  });

  it("of two that were deployed while the provisioner was away, the older is served", async () => {
    platform.agents.apply("a-younger", { graphId: "same", createdAt: NEW });
    platform.agents.apply("b-older", { graphId: "same", createdAt: OLD });
    await platform.start();
    await platform.environment("b-older");
    expect(await refusal("a-younger")).to.include("belongs to Deployment default/b-older");
  });

  it("an older Deployment that changes its graph id does not take it from its owner", async () => {
    await platform.start();
    platform.agents.apply("ancient", { createdAt: OLD });
    platform.agents.apply("owner", { createdAt: NEW });
    const env = await platform.environment("owner");
    await platform.environment("ancient");
    platform.agents.apply("ancient", { graphId: "owner" });
    expect(await refusal("ancient")).to.include("belongs to Deployment default/owner");
    expect(platform.agents.environment("owner")).to.deep.equal(env);
    expect(await platform.token(env.OPENAI_API_KEY)).to.include({ disabled: false });
  });

  it("the prefix of another agent is refused", async () => {
    await platform.start();
    platform.agents.apply("first");
    await platform.environment("first");
    platform.agents.apply("second", { annotations: { [PREFIX]: "aegra:first" } });
    expect(await refusal("second")).to.include("belongs to Deployment default/first");
  });

  it("a prefix that would cover others is refused", async () => {
    await platform.start();
    const wrong = [
      "aegra",
      "aegra:",
      "aegra:*",
      "aegra:a:b",
      "aegra:a*",
      "*",
      "aegra:a_",
      "other:a",
    ];
    for (const [index, prefix] of wrong.entries()) {
      const name = `greedy-${index}`;
      platform.agents.apply(name, { annotations: { [PREFIX]: prefix } });
      expect(await refusal(name), prefix).to.include("must look like aegra:<name>");
    }
    expect(platform.redis.users.size).to.equal(0);
  });

  it("what is refused is served once its owner is gone, without the owner's keys and data", async () => {
    await platform.start(BOTH);
    platform.agents.apply("legacy");
    const before = await platform.environment("legacy");
    platform.agents.apply("heir", { namespace: "team-b", graphId: "legacy" });
    await refusal("heir", "team-b");
    platform.agents.remove("legacy");
    const now = await platform.environment("heir", undefined, "team-b");
    expect(now.DATABASE_SCHEMA).not.to.equal(before.DATABASE_SCHEMA);
    expect(now.REDIS_PREFIX).to.equal("aegra:legacy");
    expect(platform.redis.cleared).to.deep.equal(["aegra:legacy"]);
  });

  it("an agent that comes back finds the keys of its own prefix", async () => {
    await platform.start();
    platform.agents.apply("pendulum");
    const before = await platform.environment("pendulum");
    platform.agents.remove("pendulum");
    await eventually("no Redis user", () => platform.redis.users.size === 0);
    platform.agents.apply("pendulum");
    await platform.environment("pendulum", before);
    expect(platform.redis.cleared).to.deep.equal([]);
  });

  it("two releases of one name in two namespaces have separate schemas", async () => {
    await platform.start(BOTH);
    platform.agents.apply("twin");
    platform.agents.apply("twin", { namespace: "team-b", graphId: "other-twin" });
    const [one, other] = [
      await platform.environment("twin"),
      await platform.environment("twin", undefined, "team-b"),
    ];
    expect(one.DATABASE_SCHEMA).not.to.equal(other.DATABASE_SCHEMA);
  });

  it("a label, tenant or Secret's name that is not valid is refused with what to do", async () => {
    await platform.start();
    platform.agents.apply("loud", { graphId: "not.a.graph" });
    expect(await refusal("loud")).to.include("is not a graph id");
    platform.agents.apply("rent", { annotations: { "platform.dev/tenant": "a b" } });
    expect(await refusal("rent")).to.include("is not a tenant");
    platform.agents.apply("hook", { annotations: { "platform.dev/credentials-secret": "token" } });
    expect(await refusal("hook")).to.include("must be hook-credentials");
  });
});
