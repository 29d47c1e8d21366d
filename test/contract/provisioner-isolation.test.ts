import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { pino } from "pino";
import { migrate } from "../../runtime/common/postgres.ts";
import { failureOf } from "../support/failure.ts";
import { query } from "../support/provisioner.ts";
import { type AgentEnvironment, Provisioning } from "../support/provisioning.ts";

const WORKER_MIGRATIONS = fileURLToPath(
  new URL("../../runtime/worker/migrations", import.meta.url),
);
const PERMISSION_DENIED = "42501";

describe("An agent's database login", () => {
  const platform = Provisioning.install();
  let own: AgentEnvironment;
  let other: AgentEnvironment;

  beforeEach(async () => {
    await platform.start();
    platform.agents.apply("agent-a");
    platform.agents.apply("agent-b");
    own = await platform.environment("agent-a");
    other = await platform.environment("agent-b");
    await query(other.DATABASE_URL ?? "", "CREATE TABLE IF NOT EXISTS private (word text)");
  });

  const refusal = async (statement: string) =>
    (await failureOf(query(own.DATABASE_URL ?? "", statement))).code;

  it("reads and writes nothing of another agent", async () => {
    const schema = other.DATABASE_SCHEMA;
    expect(await refusal(`SELECT * FROM ${schema}.private`)).to.equal(PERMISSION_DENIED);
    expect(await refusal(`INSERT INTO ${schema}.private VALUES ('x')`)).to.equal(PERMISSION_DENIED);
    expect(await refusal(`CREATE TABLE ${schema}.mine (n int)`)).to.equal(PERMISSION_DENIED);
    expect(await refusal(`SET ROLE ${schema}`)).to.equal(PERMISSION_DENIED);
    const login = new URL(other.DATABASE_URL ?? "").username;
    expect(await refusal(`SET ROLE ${login}`)).to.equal(PERMISSION_DENIED);
    expect(await refusal(`ALTER ROLE ${login} PASSWORD 'x'`)).to.equal(PERMISSION_DENIED);
  });

  it("reads and writes nothing of the platform", async () => {
    for (const statement of [
      "SELECT * FROM model_gateway.consumer_token",
      "INSERT INTO model_gateway.consumer_token (token_hash, tenant) VALUES (repeat('0', 64), 'x')",
      "SELECT * FROM provisioner.credential",
      "BEGIN; LOCK TABLE provisioner.leader IN ACCESS SHARE MODE",
      "SELECT * FROM tracing.span",
      "CREATE TABLE public.mine (n int)",
      "SELECT * FROM pg_authid",
    ]) {
      expect(await refusal(statement), statement).to.equal(PERMISSION_DENIED);
    }
  });

  it("makes no schemas, roles, databases or temporary tables", async () => {
    for (const statement of [
      "CREATE SCHEMA mine",
      "CREATE ROLE mine",
      "CREATE DATABASE mine",
      "CREATE TEMPORARY TABLE mine (n int)",
      "ALTER SYSTEM SET work_mem = '1GB'",
    ]) {
      expect(await refusal(statement), statement).to.equal(PERMISSION_DENIED);
    }
  });

  it("gets no more rights from the roles that it is a member of", async () => {
    const login = new URL(own.DATABASE_URL ?? "").username;
    for (const statement of [
      "SET ROLE platform_agents",
      `GRANT platform_agents TO ${own.DATABASE_SCHEMA} WITH SET TRUE`,
      "SET ROLE provisioner",
      `ALTER ROLE ${login} CREATEROLE`,
      `ALTER ROLE ${login} CONNECTION LIMIT -1`,
      `GRANT ${other.DATABASE_SCHEMA} TO ${login}`,
    ]) {
      expect(await refusal(statement), statement).to.equal(PERMISSION_DENIED);
    }
  });

  it("connects to no other database", async () => {
    const url = new URL(own.DATABASE_URL ?? "");
    url.pathname = "/postgres";
    expect((await failureOf(query(url.href, "SELECT 1"))).code).to.equal(PERMISSION_DENIED);
  });

  it("ends no session of anybody else", async () => {
    const statement =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'provisioner'";
    expect(await refusal(statement)).to.equal(PERMISSION_DENIED);
  });

  it("has a limited number of sessions", async () => {
    const { rows } = await query(
      platform.superuserUrl,
      "SELECT rolconnlimit FROM pg_roles WHERE rolname = $1",
      [new URL(own.DATABASE_URL ?? "").username],
    );
    expect(rows).to.deep.equal([{ rolconnlimit: 20 }]);
  });

  it("runs the worker's migrations, into its own schema", async () => {
    const { DATABASE_URL = "", DATABASE_SCHEMA = "" } = own;
    await migrate(DATABASE_URL, DATABASE_SCHEMA, WORKER_MIGRATIONS, pino({ level: "silent" }));
    const { rows } = await query(
      platform.superuserUrl,
      `SELECT schemaname, tableowner FROM pg_tables WHERE tablename = 'run'
       AND schemaname <> 'worker'`,
    );
    expect(rows).to.deep.equal([{ schemaname: DATABASE_SCHEMA, tableowner: DATABASE_SCHEMA }]);
  });
});
