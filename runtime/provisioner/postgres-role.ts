import { setTimeout as delay } from "node:timers/promises";
import pg, { type Pool } from "pg";
import { ProvisioningError } from "./failure.ts";
import { AGENTS_ROLE } from "./names.ts";

/** A role that one generation of credentials logs in as. */
export interface Login {
  name: string;
  /** SCRAM verifier of its password. */
  verifier: string;
}

/** Roles and schemas of agents. */
export interface DatabaseRoles {
  /** Makes what no agent has of its own. Run once at the start. */
  prepare(): Promise<void>;
  /** Brings an agent's role, schema and logins to what they should be. */
  ensure(agent: string, logins: readonly Login[]): Promise<void>;
  /** Takes a login away and ends its sessions; what it owned is the agent's. */
  revoke(agent: string, login: string): Promise<void>;
}

/** Attributes that no role of an agent may have, whoever gave them to it. */
const ATTRIBUTES = ["rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"];
const SESSIONS_END_MS = 5_000;
const SESSIONS_PAUSE_MS = 50;

/**
 * An agent's role owns its schema and cannot log in. Each generation of its credentials logs in as
 * a role of its own that acts as the agent's: PostgreSQL knows one password a role, and two
 * generations are valid while a Deployment rolls.
 *
 * @param pool A role with CREATEROLE, and CONNECT (with grant option) and CREATE on its database.
 * @param connections Sessions that a login may have.
 */
export function createDatabaseRoles(pool: Pool, connections: number): DatabaseRoles {
  async function existing(names: readonly string[]): Promise<Set<string>> {
    const { rows } = await pool.query<{ rolname: string; excessive: boolean }>(
      `SELECT rolname, ${ATTRIBUTES.join(" OR ")} AS excessive FROM pg_roles WHERE rolname = ANY($1)`,
      [names],
    );
    const excessive = rows.find((row) => row.excessive);
    if (excessive !== undefined) {
      throw new ProvisioningError(
        `Somebody gave the database role ${excessive.rolname} rights that no agent may have; take them away with ALTER ROLE.`,
      );
    }
    return new Set(rows.map(({ rolname }) => rolname));
  }

  return {
    async prepare() {
      const { rows } = await pool.query<{ name: string; version: number; connect: boolean }>(
        `SELECT current_database() AS name, current_setting('server_version_num')::int AS version,
                EXISTS (SELECT FROM pg_roles WHERE rolname = $1
                        AND has_database_privilege(oid, current_database(), 'CONNECT')) AS connect`,
        [AGENTS_ROLE],
      );
      const [database] = rows;
      if (database === undefined || database.version < 160_000) {
        throw new ProvisioningError("Agents' roles need PostgreSQL 16 or later.");
      }
      if (!(await existing([AGENTS_ROLE])).has(AGENTS_ROLE)) {
        await pool.query(`CREATE ROLE ${AGENTS_ROLE} NOLOGIN`);
      }
      if (!database.connect) {
        const name = pg.escapeIdentifier(database.name);
        await pool.query(`GRANT CONNECT ON DATABASE ${name} TO ${AGENTS_ROLE}`);
      }
    },

    async ensure(agent, logins) {
      const roles = await existing([agent, ...logins.map(({ name }) => name)]);
      const { rows } = await pool.query<{ database: string; owner: string | null }>(
        `SELECT current_database() AS database,
                (SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = $1) AS owner`,
        [agent],
      );
      const { database = "", owner = null } = rows[0] ?? {};
      if (owner !== null && owner !== agent) {
        throw new ProvisioningError(`The schema ${agent} belongs to ${owner}, not to its agent.`);
      }
      // One message: PostgreSQL takes it as one transaction.
      await pool.query(
        [
          ...(roles.has(agent) ? [] : [`CREATE ROLE ${pg.escapeIdentifier(agent)} NOLOGIN`]),
          ...adopt(agent),
          `CREATE SCHEMA IF NOT EXISTS ${pg.escapeIdentifier(agent)} AUTHORIZATION ${pg.escapeIdentifier(agent)}`,
          ...logins.flatMap((login) => [
            ...(roles.has(login.name) ? [] : createLogin(login)),
            ...setLogin(login, agent, database, connections),
          ]),
        ].join(";\n"),
      );
    },

    async revoke(agent, login) {
      if (!(await existing([login])).has(login)) return;
      const [owner, role] = [pg.escapeIdentifier(agent), pg.escapeIdentifier(login)];
      await pool.query(`ALTER ROLE ${role} NOLOGIN`);
      await endSessions(pool, login);
      await pool.query(
        `REASSIGN OWNED BY ${role} TO ${owner}; DROP OWNED BY ${role}; DROP ROLE ${role}`,
      );
    },
  };
}

/** Whoever makes a role may administer it, but not act as it, until it says so itself. */
function adopt(role: string): string[] {
  return [`GRANT ${pg.escapeIdentifier(role)} TO CURRENT_USER WITH INHERIT TRUE, SET TRUE`];
}

function createLogin({ name }: Login): string[] {
  return [
    `CREATE ROLE ${pg.escapeIdentifier(name)} NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS`,
    ...adopt(name),
  ];
}

function setLogin(login: Login, agent: string, database: string, connections: number): string[] {
  const role = pg.escapeIdentifier(login.name);
  const owner = pg.escapeIdentifier(agent);
  const inDatabase = `ALTER ROLE ${role} IN DATABASE ${pg.escapeIdentifier(database)}`;
  return [
    `ALTER ROLE ${role} LOGIN CONNECTION LIMIT ${connections} PASSWORD ${pg.escapeLiteral(login.verifier)}`,
    `GRANT ${owner} TO ${role} WITH INHERIT TRUE, SET TRUE`,
    `GRANT ${AGENTS_ROLE} TO ${role} WITH INHERIT TRUE, SET FALSE`,
    `${inDatabase} SET search_path = ${owner}`,
    // What a session makes belongs to the agent, not to this generation of its credentials.
    `${inDatabase} SET role = ${owner}`,
  ];
}

async function endSessions(pool: Pool, login: string): Promise<void> {
  const deadline = Date.now() + SESSIONS_END_MS;
  for (;;) {
    const { rowCount } = await pool.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1",
      [login],
    );
    if (rowCount === 0) return;
    if (Date.now() > deadline) {
      throw new ProvisioningError(`Sessions of ${login} do not end.`);
    }
    await delay(SESSIONS_PAUSE_MS);
  }
}
