import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import pg from "pg";
import { pino } from "pino";
import { createPool, migrate } from "../../runtime/common/postgres.ts";
import { createConsumerTokens } from "../../runtime/provisioner/consumer-token.ts";
import { createDatabaseRoles } from "../../runtime/provisioner/postgres-role.ts";
import { prepareSchema } from "../../runtime/provisioner/schema.ts";
import { scramVerifier } from "../../runtime/provisioner/scram.ts";
import { failureOf } from "../support/failure.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import { query } from "../support/provisioner.ts";

const logger = pino({ level: "silent" });
const place = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const DATABASE = "elsewhere";

/** The document's statements, as psql would send them. */
function statements(): string {
  const text = readFileSync(place("docs/external-database.md"), "utf8");
  const sql = text.match(/```sql\n(.*?)```/s)?.[1] ?? "";
  expect(sql).to.include("\\password platform");
  return sql
    .replaceAll(':"DBNAME"', pg.escapeIdentifier(DATABASE))
    .replace("\\password platform", "ALTER ROLE platform PASSWORD 'pass';");
}

describe("a database that somebody else runs", () => {
  let postgres: TestPostgres;
  let pool: pg.Pool;
  let url: string;
  const as = (user: string, password: string) => {
    const address = new URL(postgres.adminUrl);
    Object.assign(address, { username: user, password, pathname: `/${DATABASE}` });
    return address.href;
  };

  before(async () => {
    postgres = await startTestPostgres();
    // As managed services have it: the owner of the database is no superuser.
    await query(postgres.adminUrl, "CREATE ROLE owner LOGIN CREATEROLE CREATEDB PASSWORD 'owner'");
    await query(postgres.adminUrl, `CREATE DATABASE ${DATABASE} OWNER owner`);
    await query(as("owner", "owner"), statements());
    url = as("platform", "pass");
    pool = createPool(url, logger, { applicationName: "test" });
  });

  after(async () => {
    await pool?.end();
    await postgres?.stop();
  });

  it("takes the model gateway's tables and the provisioner's, by the printed statements", async () => {
    await migrate(url, "model_gateway", place("runtime/model-gateway/migrations"), logger);
    await prepareSchema(url, pool, logger);
    await createConsumerTokens(pool).ensure(["0".repeat(64)], "tenant", "assistant");
    const { rows } = await pool.query("SELECT tenant FROM consumer_token");
    expect(rows).to.deep.equal([{ tenant: "tenant" }]);
  });

  it("gives agents schemas of their own, from which they see nobody else's", async () => {
    const roles = createDatabaseRoles(pool, 5);
    await roles.prepare();
    const verifier = await scramVerifier("agent-pass");
    await roles.ensure("agent_one", [{ name: "agent_one_1", verifier }]);
    await roles.ensure("agent_two", [{ name: "agent_two_1", verifier }]);
    const one = as("agent_one_1", "agent-pass");
    await query(one, "CREATE TABLE mine (); SELECT FROM mine");
    const errors = await Promise.all([
      failureOf(query(as("agent_two_1", "agent-pass"), "SELECT FROM agent_one.mine")),
      failureOf(query(one, "SELECT FROM model_gateway.consumer_token")),
      failureOf(query(one, "CREATE TABLE public.theirs ()")),
      failureOf(query(one, "CREATE ROLE more")),
    ]);
    for (const error of errors) expect(error.code).to.equal("42501");
  });
});
