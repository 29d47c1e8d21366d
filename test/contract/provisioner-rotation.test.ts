import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { query } from "../support/provisioner.ts";
import { type AgentEnvironment, Provisioning } from "../support/provisioning.ts";

const ROTATE = "platform.dev/rotate-credentials";
const SECRETS = "/api/v1/namespaces/default/secrets";

describe("The provisioner's rotation of credentials", () => {
  const platform = Provisioning.install();

  /** Deploys an agent, asks for new credentials, and waits until they are there. */
  async function rotated(name: string): Promise<[AgentEnvironment, AgentEnvironment]> {
    platform.agents.apply(name);
    const before = await platform.environment(name);
    platform.agents.annotate(name, { [ROTATE]: "1" });
    const now = await platform.environment(name, before);
    await eventually("a roll", () => platform.agents.rollout(name) !== undefined);
    return [before, now];
  }

  const loginOf = ({ DATABASE_URL = "" }: AgentEnvironment) => new URL(DATABASE_URL).username;

  async function works(environment: AgentEnvironment): Promise<boolean> {
    const token = await platform.token(environment.OPENAI_API_KEY);
    const hasToken = token !== undefined && !token.disabled;
    const answers = [
      await platform.canLogIn(environment),
      platform.hasRedisPassword(environment),
      hasToken,
    ];
    if (new Set(answers).size > 1) throw new Error(`half of it works: ${answers}`);
    return hasToken;
  }

  it("keeps the old credentials valid until the Deployment has rolled, then revokes them", async () => {
    await platform.start();
    const [before, now] = await rotated("roller");
    expect(await works(before)).to.equal(true);
    expect(await works(now)).to.equal(true);
    for (const name of ["DATABASE_URL", "REDIS_URL", "OPENAI_API_KEY"]) {
      expect(now[name]).not.to.equal(before[name]);
    }
    platform.agents.finishRollout("roller");
    await platform.events("roller", "CredentialsRevoked");
    expect(await works(before)).to.equal(false);
    expect(await works(now)).to.equal(true);
    await platform.events("roller", "CredentialsRotated");
  });

  it("revokes the old credentials at the latest when their time is over", async () => {
    await platform.start({ overlapMs: 100 });
    const [before, now] = await rotated("sluggish");
    await platform.events("sluggish", "CredentialsRevoked");
    expect(await works(before)).to.equal(false);
    expect(await works(now)).to.equal(true);
  });

  it("revokes in time what a provisioner before it replaced", async () => {
    const first = await platform.start({ overlapMs: 100 });
    const [before] = await rotated("handed-over");
    await first.stop();
    await platform.start();
    await eventually("the old login's end", async () => !(await platform.canLogIn(before)));
  });

  it("lets the new login use and change what the old one made, whoever it acted as", async () => {
    await platform.start();
    platform.agents.apply("maker");
    const before = await platform.environment("maker");
    await query(
      before.DATABASE_URL ?? "",
      "CREATE TABLE ordinary (n int); RESET ROLE; SET ROLE NONE; CREATE TABLE peculiar (n int)",
    );
    platform.agents.annotate("maker", { [ROTATE]: "1" });
    const now = await platform.environment("maker", before);
    await eventually("a roll", () => platform.agents.rollout("maker") !== undefined);
    platform.agents.finishRollout("maker");
    await platform.events("maker", "CredentialsRevoked");
    await query(
      now.DATABASE_URL ?? "",
      "ALTER TABLE ordinary ADD m int; ALTER TABLE peculiar ADD m int",
    );
  });

  it("rotates once for one value of the annotation, and again for the next", async () => {
    await platform.start({ resyncMs: 20 });
    const [, second] = await rotated("counted");
    platform.agents.finishRollout("counted");
    await platform.events("counted", "CredentialsRevoked");
    expect(platform.agents.environment("counted")).to.deep.equal(second);
    platform.agents.annotate("counted", { [ROTATE]: "2" });
    await platform.environment("counted", second);
    await platform.events("counted", "CredentialsRotated", 2);
  });

  it("does not rotate for an annotation that was there from the start", async () => {
    await platform.start({ resyncMs: 20 });
    platform.agents.apply("annotated", { annotations: { [ROTATE]: "first" } });
    const env = await platform.environment("annotated");
    const looks = () =>
      platform.api.requests.filter(({ path }) => path.endsWith("annotated-credentials"));
    await eventually("some looks", () => looks().length > 5);
    expect(platform.agents.environment("annotated")).to.deep.equal(env);
  });

  it("keeps at most three generations, however often one asks", async () => {
    await platform.start();
    platform.agents.apply("eager");
    const all = [await platform.environment("eager")];
    for (const value of ["1", "2", "3"]) {
      platform.agents.annotate("eager", { [ROTATE]: value });
      all.push(await platform.environment("eager", all.at(-1)));
    }
    const [first, ...rest] = all;
    await eventually("the first login's end", async () => !(await platform.canLogIn(first ?? {})));
    for (const one of rest) expect(await works(one)).to.equal(true);
  });

  it("makes a deleted Secret anew, and rolls the pods that have what stood in it", async () => {
    await platform.start({ resyncMs: 20 });
    platform.agents.apply("bereft");
    const before = await platform.environment("bereft");
    platform.api.store.remove(`${SECRETS}/bereft-credentials`);
    const now = await platform.environment("bereft", before);
    await eventually("a roll", () => platform.agents.rollout("bereft") !== undefined);
    expect(await works(before), "running pods go on").to.equal(true);
    expect(await works(now)).to.equal(true);
    const [message] = await platform.events("bereft", "CredentialsRotated");
    expect(message).to.include("its Secret was changed or deleted");
  });

  it("replaces credentials that somebody changed", async () => {
    await platform.start({ resyncMs: 20 });
    platform.agents.apply("changed");
    const before = await platform.environment("changed");
    const secret = platform.api.store.find(`${SECRETS}/changed-credentials`);
    const data = { OPENAI_API_KEY: Buffer.from("mine").toString("base64") };
    platform.api.store.patch(
      platform.api.store.pathOf(`${SECRETS}/changed-credentials`),
      { data },
      "application/merge-patch+json",
    );
    expect(secret).not.to.equal(undefined);
    const now = await platform.environment("changed", before);
    expect(await works(now)).to.equal(true);
  });

  it("puts changed settings right without new credentials", async () => {
    await platform.start({ resyncMs: 20 });
    platform.agents.apply("tuned");
    const env = await platform.environment("tuned");
    const data = { OPENAI_BASE_URL: Buffer.from("http://evil").toString("base64"), MORE: "eA==" };
    platform.api.store.patch(
      platform.api.store.pathOf(`${SECRETS}/tuned-credentials`),
      { data },
      "application/merge-patch+json",
    );
    await eventually("the settings", () => {
      const { OPENAI_BASE_URL, MORE } = platform.agents.environment("tuned") ?? {};
      return OPENAI_BASE_URL === env.OPENAI_BASE_URL && MORE === undefined;
    });
    expect(platform.agents.environment("tuned")).to.deep.equal(env);
  });

  it("puts a login right that somebody took away or changed in the database", async () => {
    const first = await platform.start();
    platform.agents.apply("locked");
    const env = await platform.environment("locked");
    await first.stop();
    await query(platform.superuserUrl, `ALTER ROLE ${loginOf(env)} NOLOGIN PASSWORD 'other'`);
    await platform.start();
    await eventually("the login", () => platform.canLogIn(env));
  });

  it("gives new credentials to a Deployment that was deleted and made anew unseen", async () => {
    const first = await platform.start();
    platform.agents.apply("reborn");
    const before = await platform.environment("reborn");
    await first.stop();
    platform.agents.remove("reborn");
    platform.agents.apply("reborn");
    await platform.start();
    const now = await platform.environment("reborn", before);
    expect(await works(now)).to.equal(true);
    await eventually("the old login's end", async () => !(await platform.canLogIn(before)));
    expect(platform.agents.rollout("reborn")).to.equal(undefined);
  });

  it("follows a new tenant, graph id and prefix with the credentials that there are", async () => {
    await platform.start();
    platform.agents.apply("mover");
    const before = await platform.environment("mover");
    platform.agents.annotate("mover", {
      "platform.dev/tenant": "other",
      "platform.dev/redis-prefix": "aegra:elsewhere",
    });
    await eventually("the prefix", () => {
      return platform.agents.environment("mover")?.REDIS_PREFIX === "aegra:elsewhere";
    });
    const now = platform.agents.environment("mover") ?? {};
    expect(now.DATABASE_URL).to.equal(before.DATABASE_URL);
    expect(await platform.token(now.OPENAI_API_KEY)).to.include({ tenant: "other" });
    expect(platform.redis.users.get(now.DATABASE_SCHEMA ?? "")?.prefix).to.equal("aegra:elsewhere");
    await eventually("a roll", () => platform.agents.rollout("mover") !== undefined);
  });

  it("refuses a login that somebody gave rights to", async () => {
    const first = await platform.start();
    platform.agents.apply("mighty");
    const login = loginOf(await platform.environment("mighty"));
    await first.stop();
    await query(platform.superuserUrl, `ALTER ROLE ${login} CREATEROLE`);
    await platform.start();
    const [message] = await platform.events("mighty", "CredentialsFailed");
    expect(message).to.include(`Somebody gave the database role ${login} rights`);
  });

  it("ends the sessions of revoked credentials", async () => {
    await platform.start({ overlapMs: 100 });
    platform.agents.apply("sleeper");
    const before = await platform.environment("sleeper");
    const session = query(before.DATABASE_URL ?? "", "SELECT pg_sleep(3600)");
    session.catch(() => {});
    await eventually("the session", async () => {
      const { rowCount } = await query(
        platform.superuserUrl,
        "SELECT FROM pg_stat_activity WHERE usename = $1",
        [loginOf(before)],
      );
      return rowCount === 1;
    });
    platform.agents.annotate("sleeper", { [ROTATE]: "1" });
    expect((await failureOf(session)).code).to.equal("57P01");
  });
});
