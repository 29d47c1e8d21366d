import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import pg from "pg";
import { pino } from "pino";
import { DATABASE_NAME, FIRST_START_SQL } from "../../components/database.ts";
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
const ELSEWHERE = "elsewhere";
const INSUFFICIENT_PRIVILEGE = "42501";

/** The document's statements, as psql would send them. */
function printedStatements(): string {
  const text = readFileSync(place("docs/external-database.md"), "utf8");
  const sql = text.match(/```sql\n(.*?)```/s)?.[1] ?? "";
  expect(sql.match(/\\password \w+/g)).to.have.length(2);
  return sql
    .replaceAll(':"DBNAME"', pg.escapeIdentifier(ELSEWHERE))
    .replace(/\\password (\w+)/g, "ALTER ROLE $1 PASSWORD 'pass';");
}

/** The statements of the platform's own database, as psql would send them. */
function ownStatements(): string {
  return FIRST_START_SQL.replace(/:'(\w+)'/g, "'pass'");
}

interface Server {
  /** The superuser's URL of a database. */
  admin(database: string): string;
  /** The URL of a role whose password is `pass`. */
  as(user: string): string;
}

interface Kind {
  what: string;
  database: string;
  prepare(server: Server): Promise<void>;
}

const KINDS: Kind[] = [
  {
    what: "that somebody else runs, by the printed statements,",
    database: ELSEWHERE,
    async prepare({ admin, as }) {
      // As managed services have it: the owner of the database is no superuser.
      await query(admin("postgres"), "CREATE ROLE owner LOGIN CREATEROLE PASSWORD 'pass'");
      await query(admin("postgres"), `CREATE DATABASE ${ELSEWHERE} OWNER owner`);
      await query(as("owner"), printedStatements());
    },
  },
  {
    what: "of the platform's own, by its first start,",
    database: DATABASE_NAME,
    async prepare({ admin }) {
      await query(admin("postgres"), `CREATE DATABASE ${DATABASE_NAME}`);
      await query(admin(DATABASE_NAME), ownStatements());
    },
  },
];

for (const { what, database, prepare } of KINDS) {
  describe(`a database ${what}`, () => {
    let postgres: TestPostgres;
    let pool: pg.Pool;
    const admin = (name: string) => {
      const address = new URL(postgres.adminUrl);
      address.pathname = `/${name}`;
      return address.href;
    };
    const as = (user: string) => {
      const address = new URL(postgres.adminUrl);
      Object.assign(address, { username: user, password: "pass", pathname: `/${database}` });
      return address.href;
    };

    before(async () => {
      postgres = await startTestPostgres();
      // The server of a test comes with what the embedded way makes.
      await query(admin("postgres"), `DROP DATABASE ${DATABASE_NAME}`);
      await query(admin("postgres"), "ALTER ROLE model_gateway RENAME TO embedded");
      await prepare({ admin, as });
      pool = createPool(as("provisioner"), logger, { applicationName: "test" });
      await migrate(
        as("model_gateway"),
        "model_gateway",
        place("runtime/model-gateway/migrations"),
        logger,
      );
      await prepareSchema(as("provisioner"), pool, logger);
    });

    after(async () => {
      await pool?.end();
      await postgres?.stop();
    });

    it("lets the model gateway in with the tokens that the provisioner enters", async () => {
      await createConsumerTokens(pool).ensure(["0".repeat(64)], "tenant", "assistant");
      const { rows } = await query(as("model_gateway"), "SELECT tenant FROM consumer_token");
      expect(rows).to.deep.equal([{ tenant: "tenant" }]);
    });

    it("shows the provisioner nothing else of the model gateway's, not even its next table", async () => {
      await query(as("model_gateway"), "CREATE TABLE IF NOT EXISTS next ()");
      for (const statement of [
        "SELECT FROM model_gateway.usage",
        "INSERT INTO model_gateway.schema_migration DEFAULT VALUES",
        "SELECT FROM model_gateway.next",
        "DELETE FROM model_gateway.consumer_token",
        "CREATE TABLE model_gateway.mine ()",
      ]) {
        const { code } = await failureOf(query(as("provisioner"), statement));
        expect(code, statement).to.equal(INSUFFICIENT_PRIVILEGE);
      }
    });

    it("lets the model gateway make nothing outside of its schema", async () => {
      for (const statement of [
        "CREATE ROLE more",
        "CREATE SCHEMA more",
        "CREATE TABLE public.more ()",
        "SELECT FROM provisioner.agent",
        "SET ROLE provisioner",
      ]) {
        const { code } = await failureOf(query(as("model_gateway"), statement));
        expect(code, statement).to.equal(INSUFFICIENT_PRIVILEGE);
      }
    });

    it("gives agents schemas of their own, from which they see nobody else's", async () => {
      const roles = createDatabaseRoles(pool, 5);
      await roles.prepare();
      const verifier = await scramVerifier("pass");
      await roles.ensure("agent_one", [{ name: "agent_one_1", verifier }]);
      await roles.ensure("agent_two", [{ name: "agent_two_1", verifier }]);
      const one = as("agent_one_1");
      await query(one, "CREATE TABLE mine (); SELECT FROM mine");
      const errors = await Promise.all([
        failureOf(query(as("agent_two_1"), "SELECT FROM agent_one.mine")),
        failureOf(query(one, "SELECT FROM model_gateway.consumer_token")),
        failureOf(query(one, "CREATE TABLE public.theirs ()")),
        failureOf(query(one, "CREATE ROLE more")),
      ]);
      for (const error of errors) expect(error.code).to.equal(INSUFFICIENT_PRIVILEGE);
    });
  });
}
