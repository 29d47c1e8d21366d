import { expect } from "chai";
import { hashToken } from "../../runtime/common/identity.ts";
import { agentName } from "../../runtime/provisioner/names.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { query } from "../support/provisioner.ts";
import { Provisioning } from "../support/provisioning.ts";

describe("The provisioner", () => {
  const platform = Provisioning.install();

  it("gives a new agent a Secret with credentials that work", async () => {
    await platform.start();
    platform.agents.apply("assistant", { annotations: { "platform.dev/tenant": "acme" } });
    const env = await platform.environment("assistant");
    expect(env).to.include({
      DATABASE_SCHEMA: agentName("default", "assistant"),
      REDIS_PREFIX: "aegra:assistant",
      OPENAI_BASE_URL: "http://model-gateway:8000/v1",
      ASSERTION_PUBLIC_KEY: "pem",
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://model-gateway:8000/otlp",
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${env.OPENAI_API_KEY}`,
    });
    const { rows } = await query(env.DATABASE_URL ?? "", "SELECT current_schema, current_user");
    expect(rows).to.deep.equal([
      { current_schema: env.DATABASE_SCHEMA, current_user: env.DATABASE_SCHEMA },
    ]);
    expect(await platform.token(env.OPENAI_API_KEY)).to.deep.equal({
      tenant: "acme",
      agent: "assistant",
      disabled: false,
    });
    const user = platform.redis.users.get(env.DATABASE_SCHEMA ?? "");
    const password = new URL(env.REDIS_URL ?? "").password;
    expect(user).to.deep.equal({
      prefix: "aegra:assistant",
      passwordHashes: [hashToken(password)],
    });
    await platform.events("assistant", "CredentialsProvisioned");
    expect(
      platform.agents.rollout("assistant"),
      "pods wait for the Secret; there is nothing to roll",
    ).to.equal(undefined);
  });

  it("ties the Secret to the Deployment, so that it goes with it", async () => {
    await platform.start();
    const { metadata } = platform.agents.apply("tied");
    await platform.environment("tied");
    const secret = platform.api.store.find("/api/v1/namespaces/default/secrets/tied-credentials");
    expect(secret?.type).to.equal("Opaque");
    expect(secret?.metadata.labels).to.include({ "platform.dev/graph-id": "tied" });
    expect(secret?.metadata.ownerReferences).to.deep.equal([
      { apiVersion: "apps/v1", kind: "Deployment", name: "tied", uid: metadata.uid },
    ]);
  });

  it("finds agents that were deployed while it was away", async () => {
    platform.agents.apply("early");
    await platform.start();
    await platform.environment("early");
  });

  it("changes nothing on a second look", async () => {
    await platform.start({ resyncMs: 20 });
    platform.agents.apply("steady");
    const env = await platform.environment("steady");
    const writes = platform.api.writes("secrets").length;
    const seen = platform.api.requests.filter(({ path }) =>
      path.endsWith("steady-credentials"),
    ).length;
    await eventually("some more looks", () => {
      const looks = platform.api.requests.filter(({ path }) => path.endsWith("steady-credentials"));
      return looks.length > seen + 3;
    });
    expect(platform.api.writes("secrets").length).to.equal(writes);
    expect(platform.agents.environment("steady")).to.deep.equal(env);
  });

  it("takes access away when the Deployment goes, and keeps the data", async () => {
    await platform.start();
    platform.agents.apply("leaver");
    const env = await platform.environment("leaver");
    await query(
      env.DATABASE_URL ?? "",
      "CREATE TABLE kept (word text); INSERT INTO kept VALUES ('here')",
    );
    platform.agents.remove("leaver");
    await eventually("no login", async () => !(await platform.canLogIn(env)));
    await eventually("no Redis user", () => !platform.redis.users.has(env.DATABASE_SCHEMA ?? ""));
    await eventually("no login role", async () => {
      const { rowCount } = await query(
        platform.superuserUrl,
        "SELECT FROM pg_roles WHERE rolname LIKE $1 AND rolcanlogin",
        [`${env.DATABASE_SCHEMA}%`],
      );
      return rowCount === 0;
    });
    expect(await platform.token(env.OPENAI_API_KEY)).to.include({ disabled: true });
    const { rows } = await query(
      platform.superuserUrl,
      `SELECT word FROM ${env.DATABASE_SCHEMA}.kept`,
    );
    expect(rows).to.deep.equal([{ word: "here" }]);
  });

  it("ends the sessions that a removed agent has open", async () => {
    await platform.start();
    platform.agents.apply("talker");
    const env = await platform.environment("talker");
    const session = query(env.DATABASE_URL ?? "", "SELECT pg_sleep(3600)");
    await eventually("the session", async () => {
      const { rowCount } = await query(
        platform.superuserUrl,
        "SELECT FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)' AND pid <> pg_backend_pid()",
      );
      return rowCount === 1;
    });
    platform.agents.remove("talker");
    expect((await failureOf(session)).code).to.equal("57P01");
  });

  it("gives an agent that comes back its old data under new credentials", async () => {
    await platform.start();
    platform.agents.apply("returner");
    const before = await platform.environment("returner");
    await query(
      before.DATABASE_URL ?? "",
      "CREATE TABLE kept (word text); INSERT INTO kept VALUES ('here')",
    );
    platform.agents.remove("returner");
    await eventually(
      "no Redis user",
      () => !platform.redis.users.has(before.DATABASE_SCHEMA ?? ""),
    );
    platform.agents.apply("returner");
    const env = await platform.environment("returner", before);
    const { rows } = await query(env.DATABASE_URL ?? "", "SELECT word FROM kept");
    expect(rows).to.deep.equal([{ word: "here" }]);
    expect(env.OPENAI_API_KEY).not.to.equal(before.OPENAI_API_KEY);
    expect(await platform.canLogIn(before)).to.equal(false);
  });

  it("notices a removal that happened while it was away", async () => {
    const first = await platform.start();
    platform.agents.apply("gone");
    const env = await platform.environment("gone");
    await first.stop();
    platform.agents.remove("gone");
    await platform.start();
    await eventually("no login", async () => !(await platform.canLogIn(env)));
  });

  it("leaves agents of a namespace that it does not watch any more as they are", async () => {
    const first = await platform.start({ namespaces: ["default", "elsewhere"] });
    platform.agents.apply("far", { namespace: "elsewhere" });
    const env = await platform.environment("far", undefined, "elsewhere");
    await first.stop();
    await platform.start();
    platform.agents.apply("near");
    await platform.environment("near");
    expect(await platform.canLogIn(env)).to.equal(true);
  });

  it("never logs or tells a secret", async () => {
    const provisioner = await platform.start({ overlapMs: 50 });
    platform.agents.apply("quiet");
    const first = await platform.environment("quiet");
    platform.agents.annotate("quiet", { "platform.dev/rotate-credentials": "1" });
    const second = await platform.environment("quiet", first);
    await platform.events("quiet", "CredentialsRevoked");
    const shown =
      provisioner.log() + JSON.stringify(platform.api.writes("events").map(({ body }) => body));
    for (const env of [first, second]) {
      const database = new URL(env.DATABASE_URL ?? "").password;
      const cache = new URL(env.REDIS_URL ?? "").password;
      for (const secret of [database, cache, env.OPENAI_API_KEY ?? ""]) {
        expect(secret).to.have.length.greaterThan(40);
        expect(shown).not.to.include(secret);
        expect(shown).not.to.include(hashToken(secret));
      }
    }
    expect(shown).not.to.include(new URL(platform.adminUrl).password);
  });
});
