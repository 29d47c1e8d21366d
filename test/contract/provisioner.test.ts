import { expect } from "chai";
import { hashToken } from "../../runtime/common/identity.ts";
import { agentName } from "../../runtime/provisioner/names.ts";
import { AgentDeployments } from "../support/agent-deployment.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { KubernetesApi } from "../support/kubernetes-api.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import {
  createProvisionerRole,
  query,
  RecordedRedisUsers,
  startProvisioner,
  type TestProvisioner,
  type TestProvisionerOptions,
} from "../support/provisioner.ts";

const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";

describe("The provisioner", () => {
  let postgres: TestPostgres;
  let adminUrl: string;
  let api: KubernetesApi;
  let agents: AgentDeployments;
  let redis: RecordedRedisUsers;
  let running: TestProvisioner[];

  before(async () => {
    postgres = await startTestPostgres();
    adminUrl = await createProvisionerRole(postgres);
  });
  after(() => postgres.stop());

  beforeEach(async () => {
    api = new KubernetesApi();
    await api.start();
    agents = new AgentDeployments(api);
    redis = new RecordedRedisUsers();
    running = [];
  });
  afterEach(async () => {
    await Promise.all(running.map((one) => one.stop()));
    await api.stop();
    await query(
      postgres.adminUrl,
      "TRUNCATE provisioner.agent, provisioner.credential, provisioner.redis_prefix",
    );
  });

  async function start(options: Partial<TestProvisionerOptions> = {}): Promise<TestProvisioner> {
    const provisioner = await startProvisioner({ api, adminUrl, redis, ...options });
    running.push(provisioner);
    return provisioner;
  }

  /** The agent's environment once it is there, and differs from an earlier one. */
  async function environment(name: string, before?: Record<string, string>, namespace?: string) {
    let found: Record<string, string> | undefined;
    await eventually(`the Secret of ${name}`, () => {
      found = agents.environment(name, namespace);
      return found !== undefined && found.DATABASE_URL !== before?.DATABASE_URL;
    });
    return found ?? {};
  }

  async function reasons(name: string, reason: string, times = 1): Promise<string[]> {
    let messages: string[] = [];
    await eventually(`${times} event(s) ${reason} of ${name}`, () => {
      const events = agents.events(name).filter((event) => event.reason === reason);
      messages = events.map(({ message }) => String(message));
      return messages.length >= times;
    });
    return messages;
  }

  async function tokenState(token = ""): Promise<unknown> {
    const { rows } = await query(
      postgres.adminUrl,
      `SELECT tenant, agent, disabled_at IS NOT NULL AS disabled
       FROM model_gateway.consumer_token WHERE token_hash = $1`,
      [hashToken(token)],
    );
    return rows[0];
  }

  const canLogIn = async (env: Record<string, string>) =>
    query(env.DATABASE_URL ?? "", "SELECT 1").then(
      () => true,
      () => false,
    );

  it("gives a new agent a Secret with credentials that work", async () => {
    await start();
    agents.apply("assistant", { annotations: { "platform.dev/tenant": "acme" } });
    const env = await environment("assistant");
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
    expect(await tokenState(env.OPENAI_API_KEY)).to.deep.equal({
      tenant: "acme",
      agent: "assistant",
      disabled: false,
    });
    const user = redis.users.get(env.DATABASE_SCHEMA ?? "");
    const password = new URL(env.REDIS_URL ?? "").password;
    expect(user).to.deep.equal({
      prefix: "aegra:assistant",
      passwordHashes: [hashToken(password)],
    });
    await reasons("assistant", "CredentialsProvisioned");
    expect(
      agents.rollout("assistant"),
      "pods wait for the Secret; there is nothing to roll",
    ).to.equal(undefined);
  });

  it("ties the Secret to the Deployment, so that it goes with it", async () => {
    await start();
    const { metadata } = agents.apply("tied");
    await environment("tied");
    const secret = api.store.find("/api/v1/namespaces/default/secrets/tied-credentials");
    expect(secret?.type).to.equal("Opaque");
    expect(secret?.metadata.labels).to.include({ "platform.dev/graph-id": "tied" });
    expect(secret?.metadata.ownerReferences).to.deep.equal([
      { apiVersion: "apps/v1", kind: "Deployment", name: "tied", uid: metadata.uid },
    ]);
  });

  it("finds agents that were deployed while it was away", async () => {
    agents.apply("early");
    await start();
    await environment("early");
  });

  it("changes nothing on a second look", async () => {
    await start({ resyncMs: 20 });
    agents.apply("steady");
    const env = await environment("steady");
    const writes = api.writes("secrets").length;
    const seen = api.requests.filter(({ path }) => path.endsWith("steady-credentials")).length;
    await eventually("some more looks", () => {
      const looks = api.requests.filter(({ path }) => path.endsWith("steady-credentials"));
      return looks.length > seen + 3;
    });
    expect(api.writes("secrets").length).to.equal(writes);
    expect(agents.environment("steady")).to.deep.equal(env);
  });

  it("takes access away when the Deployment goes, and keeps the data", async () => {
    await start();
    agents.apply("leaver");
    const env = await environment("leaver");
    await query(
      env.DATABASE_URL ?? "",
      "CREATE TABLE kept (word text); INSERT INTO kept VALUES ('here')",
    );
    agents.remove("leaver");
    await eventually("no login", async () => !(await canLogIn(env)));
    await eventually("no Redis user", () => !redis.users.has(env.DATABASE_SCHEMA ?? ""));
    await eventually("no login role", async () => {
      const { rowCount } = await query(
        postgres.adminUrl,
        "SELECT FROM pg_roles WHERE rolname LIKE $1 AND rolcanlogin",
        [`${env.DATABASE_SCHEMA}%`],
      );
      return rowCount === 0;
    });
    expect(await tokenState(env.OPENAI_API_KEY)).to.include({ disabled: true });
    const { rows } = await query(postgres.adminUrl, `SELECT word FROM ${env.DATABASE_SCHEMA}.kept`);
    expect(rows).to.deep.equal([{ word: "here" }]);
  });

  it("ends the sessions that a removed agent has open", async () => {
    await start();
    agents.apply("talker");
    const env = await environment("talker");
    const session = query(env.DATABASE_URL ?? "", "SELECT pg_sleep(3600)");
    await eventually("the session", async () => {
      const { rowCount } = await query(
        postgres.adminUrl,
        "SELECT FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)' AND pid <> pg_backend_pid()",
      );
      return rowCount === 1;
    });
    agents.remove("talker");
    expect((await failureOf(session)).code).to.equal("57P01");
  });

  it("gives an agent that comes back its old data under new credentials", async () => {
    await start();
    agents.apply("returner");
    const before = await environment("returner");
    await query(
      before.DATABASE_URL ?? "",
      "CREATE TABLE kept (word text); INSERT INTO kept VALUES ('here')",
    );
    agents.remove("returner");
    await eventually("no Redis user", () => !redis.users.has(before.DATABASE_SCHEMA ?? ""));
    agents.apply("returner");
    const env = await environment("returner", before);
    const { rows } = await query(env.DATABASE_URL ?? "", "SELECT word FROM kept");
    expect(rows).to.deep.equal([{ word: "here" }]);
    expect(env.OPENAI_API_KEY).not.to.equal(before.OPENAI_API_KEY);
    expect(await canLogIn(before)).to.equal(false);
  });

  it("notices a removal that happened while it was away", async () => {
    const first = await start();
    agents.apply("gone");
    const env = await environment("gone");
    await first.stop();
    agents.remove("gone");
    await start();
    await eventually("no login", async () => !(await canLogIn(env)));
  });

  it("leaves agents of a namespace that it does not watch any more as they are", async () => {
    const first = await start({ namespaces: ["default", "elsewhere"] });
    agents.apply("far", { namespace: "elsewhere" });
    const env = await environment("far", undefined, "elsewhere");
    await first.stop();
    await start();
    agents.apply("near");
    await environment("near");
    expect(await canLogIn(env)).to.equal(true);
  });

  it("goes on after its watch broke off and after it expired", async () => {
    await start();
    await eventually("a watch", () => api.watchers("deployments") === 1);
    api.disconnect();
    agents.apply("after-break");
    await environment("after-break");
    await eventually("a watch", () => api.watchers("deployments") === 1);
    api.store.compact();
    api.expireWatches();
    agents.apply("after-expiry");
    await environment("after-expiry");
  });

  it("heals when the API server comes back, and withdraws nothing while it is away", async () => {
    await start();
    agents.apply("patient");
    const env = await environment("patient");
    const port = Number(api.url.port);
    await api.stop();
    expect(await canLogIn(env)).to.equal(true);
    agents.apply("late");
    await api.start(port);
    await environment("late");
    expect(await canLogIn(env)).to.equal(true);
  });

  it("withdraws nothing because of a list that lacks an agent which is there", async () => {
    await start();
    agents.apply("present");
    const env = await environment("present");
    const { resourceVersion } = api.store.list(api.store.pathOf(DEPLOYMENTS)).metadata;
    api.intercept = ({ path, query: asked }, outgoing) => {
      if (path !== DEPLOYMENTS || asked.has("watch")) return false;
      api.intercept = undefined;
      outgoing.setHeader("content-type", "application/json");
      outgoing.end(JSON.stringify({ metadata: { resourceVersion }, items: [] }));
      return true;
    };
    api.expireWatches();
    await eventually("a look at the Deployment itself", () =>
      api.requests.some(({ path }) => path === `${DEPLOYMENTS}/present`),
    );
    agents.apply("next");
    await environment("next");
    expect(await canLogIn(env)).to.equal(true);
  });

  it("says in an event why it failed, and succeeds once it can", async () => {
    redis.failure = new Error("connect ECONNREFUSED");
    const provisioner = await start();
    agents.apply("unlucky");
    const [message] = await reasons("unlucky", "CredentialsFailed");
    expect(message).to.equal(
      "The provisioner could not set up the agent's Redis user: connect ECONNREFUSED.",
    );
    expect(agents.environment("unlucky")).to.equal(undefined);
    redis.failure = undefined;
    await environment("unlucky");
    expect(provisioner.log()).to.include("ECONNREFUSED");
  });

  it("does not overwrite a Secret of somebody else", async () => {
    await start();
    const path = "/api/v1/namespaces/default/secrets";
    api.store.apply(path, {
      metadata: { name: "taken-credentials", namespace: "default" },
      data: { mine: "eA==" },
    });
    agents.apply("taken");
    const [message] = await reasons("taken", "CredentialsFailed");
    expect(message).to.include("already a Secret taken-credentials");
    expect(agents.environment("taken")).to.deep.equal({ mine: "x" });
  });

  it("never logs or tells a secret", async () => {
    const provisioner = await start({ overlapMs: 50 });
    agents.apply("quiet");
    const first = await environment("quiet");
    agents.annotate("quiet", { "platform.dev/rotate-credentials": "1" });
    const second = await environment("quiet", first);
    await reasons("quiet", "CredentialsRevoked");
    const shown = provisioner.log() + JSON.stringify(api.writes("events").map(({ body }) => body));
    for (const env of [first, second]) {
      const database = new URL(env.DATABASE_URL ?? "").password;
      const cache = new URL(env.REDIS_URL ?? "").password;
      for (const secret of [database, cache, env.OPENAI_API_KEY ?? ""]) {
        expect(secret).to.have.length.greaterThan(40);
        expect(shown).not.to.include(secret);
        expect(shown).not.to.include(hashToken(secret));
      }
    }
    expect(shown).not.to.include(new URL(adminUrl).password);
  });
});
