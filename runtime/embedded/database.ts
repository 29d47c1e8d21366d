import pg from "pg";
import { hashToken } from "../common/identity.ts";

/** The database that all programs share, each with a role and a schema of its own. */
export const DATABASE = "platform";

/** Role → the schema that it owns and that its statements mean. */
const SCHEMAS = { gateway: "tracing", model_gateway: "model_gateway", worker: "worker" } as const;
export type Role = keyof typeof SCHEMAS;
export type RolePasswords = Record<Role, string>;

/** May add spans to the tracing schema, and nothing else. */
const SPAN_WRITER = "span_writer";
const ROLES = Object.keys(SCHEMAS) as Role[];

/**
 * Brings roles, database, schemas and privileges to what they should be; run at every start.
 *
 * @param adminUrl Gives the superuser's URL of a database.
 */
export async function bootstrapDatabase(
  adminUrl: (database: string) => string,
  passwords: RolePasswords,
  database = DATABASE,
): Promise<void> {
  await withClient(adminUrl("postgres"), async (client) => {
    await createRole(client, SPAN_WRITER, "NOLOGIN");
    for (const role of ROLES) {
      await createRole(client, role, "LOGIN");
      const password = client.escapeLiteral(passwords[role]);
      await client.query(`ALTER ROLE ${role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE
                          NOREPLICATION NOBYPASSRLS PASSWORD ${password}`);
      await client.query(`GRANT ${SPAN_WRITER} TO ${role}`);
    }
    await createDatabase(client, database);
    await client.query(`REVOKE ALL ON DATABASE postgres, template1, ${database} FROM PUBLIC`);
    await client.query(`GRANT CONNECT ON DATABASE ${database} TO ${ROLES.join(", ")}`);
  });
  await withClient(adminUrl(database), async (client) => {
    await client.query("REVOKE ALL ON SCHEMA public FROM PUBLIC");
    for (const role of ROLES) {
      const schema = SCHEMAS[role];
      await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema} AUTHORIZATION ${role}`);
      await client.query(`ALTER ROLE ${role} IN DATABASE ${database} SET search_path = ${schema}`);
    }
    await client.query(`GRANT USAGE ON SCHEMA tracing TO ${SPAN_WRITER}`);
    await client.query(`ALTER DEFAULT PRIVILEGES FOR ROLE gateway IN SCHEMA tracing
                        GRANT INSERT ON TABLES TO ${SPAN_WRITER}`);
  });
}

async function createRole(client: pg.Client, role: string, login: string): Promise<void> {
  const { rowCount } = await client.query("SELECT FROM pg_roles WHERE rolname = $1", [role]);
  if (rowCount === 0) await client.query(`CREATE ROLE ${role} ${login}`);
}

async function createDatabase(client: pg.Client, database: string): Promise<void> {
  const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [database]);
  if (rowCount === 0) await client.query(`CREATE DATABASE ${database}`);
}

/**
 * Takes back what the default privileges gave too much: besides spans, the gateway's migrations make
 * tables of their own. An agent that could write or lock those would stop the gateway's next start.
 */
export async function closeMigrationTable(adminUrl: string): Promise<void> {
  await withClient(adminUrl, (client) =>
    client.query(`
      REVOKE ALL ON ALL TABLES IN SCHEMA tracing FROM ${SPAN_WRITER};
      GRANT INSERT ON tracing.span TO ${SPAN_WRITER}`),
  );
}

/** A token for the model gateway, in clear. */
export interface ConsumerToken {
  token: string;
  tenant: string;
}

/** Lets these tokens into the model gateway, whose migrations have made the table. */
export async function seedConsumerTokens(adminUrl: string, tokens: ConsumerToken[]): Promise<void> {
  await withClient(adminUrl, async (client) => {
    for (const { token, tenant } of tokens) {
      await client.query(
        `INSERT INTO model_gateway.consumer_token (token_hash, tenant, agent)
         VALUES ($1, $2, NULL)
         ON CONFLICT (token_hash) DO UPDATE SET tenant = excluded.tenant, agent = excluded.agent`,
        [hashToken(token), tenant],
      );
    }
  });
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, application_name: "platform-embedded" });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
