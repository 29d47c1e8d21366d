import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { Provisioning } from "../support/provisioning.ts";

const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";

describe("The provisioner among faults", () => {
  const platform = Provisioning.install();

  it("goes on after its watch broke off and after it expired", async () => {
    await platform.start();
    await eventually("a watch", () => platform.api.watchers("deployments") === 1);
    platform.api.disconnect();
    platform.agents.apply("after-break");
    await platform.environment("after-break");
    await eventually("a watch", () => platform.api.watchers("deployments") === 1);
    platform.api.store.compact();
    platform.api.expireWatches();
    platform.agents.apply("after-expiry");
    await platform.environment("after-expiry");
  });

  it("heals when the API server comes back, and withdraws nothing while it is away", async () => {
    await platform.start();
    platform.agents.apply("patient");
    const env = await platform.environment("patient");
    const port = Number(platform.api.url.port);
    await platform.api.stop();
    expect(await platform.canLogIn(env)).to.equal(true);
    platform.agents.apply("late");
    await platform.api.start(port);
    await platform.environment("late");
    expect(await platform.canLogIn(env)).to.equal(true);
  });

  it("withdraws nothing because of a list that lacks an agent which is there", async () => {
    await platform.start();
    platform.agents.apply("present");
    const env = await platform.environment("present");
    const { resourceVersion } = platform.api.store.list(
      platform.api.store.pathOf(DEPLOYMENTS),
    ).metadata;
    platform.api.intercept = ({ path, query: asked }, outgoing) => {
      if (path !== DEPLOYMENTS || asked.has("watch")) return false;
      platform.api.intercept = undefined;
      outgoing.setHeader("content-type", "application/json");
      outgoing.end(JSON.stringify({ metadata: { resourceVersion }, items: [] }));
      return true;
    };
    platform.api.expireWatches();
    await eventually("a look at the Deployment itself", () =>
      platform.api.requests.some(({ path }) => path === `${DEPLOYMENTS}/present`),
    );
    platform.agents.apply("next");
    await platform.environment("next");
    expect(await platform.canLogIn(env)).to.equal(true);
  });

  it("says in an event why it failed, and succeeds once it can", async () => {
    platform.redis.failure = new Error("connect ECONNREFUSED");
    const provisioner = await platform.start();
    platform.agents.apply("unlucky");
    const [message] = await platform.events("unlucky", "CredentialsFailed");
    expect(message).to.equal(
      "The provisioner could not set up the agent's Redis user: connect ECONNREFUSED.",
    );
    expect(platform.agents.environment("unlucky")).to.equal(undefined);
    platform.redis.failure = undefined;
    await platform.environment("unlucky");
    expect(provisioner.log()).to.include("ECONNREFUSED");
  });

  it("does not overwrite a Secret of somebody else", async () => {
    await platform.start();
    const path = "/api/v1/namespaces/default/secrets";
    platform.api.store.apply(path, {
      metadata: { name: "taken-credentials", namespace: "default" },
      data: { mine: "eA==" },
    });
    platform.agents.apply("taken");
    const [message] = await platform.events("taken", "CredentialsFailed");
    expect(message).to.include("already a Secret taken-credentials");
    expect(platform.agents.environment("taken")).to.deep.equal({ mine: "x" });
  });
});
