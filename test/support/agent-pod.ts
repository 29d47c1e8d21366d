import type { Installation } from "./installation.ts";

/** How long a probe waits for a connection that must not come, in ms. */
const PROBE_MS = 3_000;

/** What came of an attempt to connect: `connected`, `timeout`, or an error's code. */
export type Reached = string;

/** Runs a program in an agent's own pod, with the agent's own rights; what it prints as JSON. */
export async function inAgent<T>(
  installation: Installation,
  graphId: string,
  program: string,
): Promise<T> {
  const printed = await installation.kubectl(
    ...["exec", `deployment/${graphId}`, "--", "node", "--input-type=module", "-e", program],
  );
  return JSON.parse(printed) as T;
}

/** Tries to connect to each `host:port` from an agent's pod. */
export function reachFrom(
  installation: Installation,
  graphId: string,
  targets: string[],
): Promise<Record<string, Reached>> {
  return inAgent(
    installation,
    graphId,
    `import net from "node:net";
    const reach = (target) => new Promise((resolve) => {
      const [host, port] = target.split(":");
      const socket = net.connect({ host, port, timeout: ${PROBE_MS} });
      const end = (outcome) => { socket.destroy(); resolve([target, outcome]); };
      socket.on("connect", () => end("connected"));
      socket.on("timeout", () => end("timeout"));
      socket.on("error", ({ code }) => end(code));
    });
    const outcomes = await Promise.all(${JSON.stringify(targets)}.map(reach));
    console.log(JSON.stringify(Object.fromEntries(outcomes)));`,
  );
}

/** Signs in to PostgreSQL from an agent's pod under other names: the error's code for each. */
export function signInFrom(
  installation: Installation,
  graphId: string,
  roles: string[],
): Promise<Record<string, string>> {
  return inAgent(
    installation,
    graphId,
    `import pg from "pg";
    const signIn = async (role) => {
      const url = new URL(process.env.DATABASE_URL);
      const [name, database] = role.split(" in ");
      if (name !== "itself") url.username = name;
      if (database !== undefined) url.pathname = database;
      const client = new pg.Client(url.href);
      try {
        await client.connect();
        const { rows } = await client.query("SELECT 1 AS one");
        return [role, rows[0].one === 1 ? "signed in" : "no answer"];
      } catch ({ code }) {
        return [role, code];
      } finally {
        await client.end();
      }
    };
    const outcomes = await Promise.all(${JSON.stringify(roles)}.map(signIn));
    console.log(JSON.stringify(Object.fromEntries(outcomes)));`,
  );
}
