import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { pino } from "pino";
import {
  createKubernetesClient,
  type KubernetesClient,
} from "../../runtime/common/kubernetes/client.ts";
import { createPool, migrate } from "../../runtime/common/postgres.ts";
import { createConsumerTokens } from "../../runtime/provisioner/consumer-token.ts";
import { Controller } from "../../runtime/provisioner/controller.ts";
import { createEventRecorder } from "../../runtime/provisioner/event-recorder.ts";
import { createAgentCluster } from "../../runtime/provisioner/kubernetes.ts";
import { createDatabaseRoles } from "../../runtime/provisioner/postgres-role.ts";
import type { RedisUsers } from "../../runtime/provisioner/redis-user.ts";
import { Registry } from "../../runtime/provisioner/registry.ts";
import { prepareSchema } from "../../runtime/provisioner/schema.ts";
import type { KubernetesApi } from "./kubernetes-api.ts";
import type { TestDatabase } from "./postgres.ts";

const MODEL_GATEWAY_MIGRATIONS = fileURLToPath(
  new URL("../../runtime/model-gateway/migrations", import.meta.url),
);

/** The rights that an administrator of agents' roles needs, and no more. */
export async function createProvisionerRole(database: TestDatabase): Promise<string> {
  const logger = pino({ level: "silent" });
  await migrate(database.url("model_gateway"), "model_gateway", MODEL_GATEWAY_MIGRATIONS, logger);
  const password = randomBytes(12).toString("hex");
  const url = new URL(database.url());
  const name = pg.escapeIdentifier(url.pathname.slice(1));
  await query(
    url.href,
    `CREATE ROLE provisioner LOGIN CREATEROLE PASSWORD '${password}';
     GRANT CONNECT, CREATE ON DATABASE ${name} TO provisioner WITH GRANT OPTION;
     GRANT USAGE ON SCHEMA model_gateway TO provisioner;
     GRANT SELECT, INSERT, UPDATE ON model_gateway.consumer_token TO provisioner`,
  );
  url.username = "provisioner";
  url.password = password;
  return url.href;
}

/** One statement on a connection of its own. */
export async function query(
  url: string,
  text: string,
  values?: unknown[],
): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url });
  // A session that the server ends between two statements; the statement under way tells of it too.
  client.on("error", () => {});
  await client.connect();
  try {
    return await client.query(text, values);
  } finally {
    await client.end();
  }
}

/** Redis users in memory, for tests of everything but Redis. */
export class RecordedRedisUsers implements RedisUsers {
  readonly users = new Map<string, { prefix: string; passwordHashes: readonly string[] }>();
  readonly cleared: string[] = [];
  /** Thrown by the next calls, as a server that is away does. */
  failure: Error | undefined;

  async ensure(agent: string, prefix: string, passwordHashes: readonly string[]): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    this.users.set(agent, { prefix, passwordHashes });
  }

  async remove(agent: string): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    this.users.delete(agent);
  }

  async clear(prefix: string): Promise<void> {
    this.cleared.push(prefix);
  }
}

export interface TestProvisionerOptions {
  api: KubernetesApi;
  adminUrl: string;
  redis: RedisUsers;
  namespaces?: string[];
  overlapMs?: number;
  resyncMs?: number;
  onCacheBack?: (listener: () => void, signal: AbortSignal) => void;
}

/** A provisioner in this process, as its program puts it together. */
export interface TestProvisioner {
  controller: Controller;
  /** Everything that it logged. */
  log(): string;
  stop(): Promise<void>;
}

export async function startProvisioner(options: TestProvisionerOptions): Promise<TestProvisioner> {
  const lines: string[] = [];
  const logger = pino({ level: "debug" }, { write: (line) => lines.push(line) });
  const pool = createPool(options.adminUrl, logger, { applicationName: "test", max: 5 });
  await prepareSchema(options.adminUrl, pool, logger);
  const database = createDatabaseRoles(pool, 20);
  await database.prepare();
  const client: KubernetesClient = await createKubernetesClient({
    server: options.api.url,
    tokenFile: undefined,
    caFile: undefined,
  });
  const stopping = new AbortController();
  const cluster = createAgentCluster(client, stopping.signal);
  const databaseUrl = new URL(options.adminUrl);
  databaseUrl.username = "";
  databaseUrl.password = "";
  const controller = new Controller({
    client,
    cluster,
    database,
    logger,
    registry: new Registry(pool),
    redis: options.redis,
    tokens: createConsumerTokens(pool),
    events: createEventRecorder(cluster, logger),
    namespaces: options.namespaces ?? ["default"],
    surroundings: {
      databaseUrl,
      redisUrl: new URL("redis://cache:6379"),
      otlpEndpoint: "http://model-gateway:8000/otlp",
      variables: { OPENAI_BASE_URL: "http://model-gateway:8000/v1", ASSERTION_PUBLIC_KEY: "pem" },
    },
    overlapMs: options.overlapMs ?? 600_000,
    resyncMs: options.resyncMs ?? 600_000,
    marginMs: 0,
    backoffMs: [20, 100],
    onCacheBack: options.onCacheBack ?? (() => {}),
  });
  const running = controller.run(stopping.signal);
  return {
    controller,
    log: () => lines.join(""),
    async stop() {
      if (stopping.signal.aborted) return;
      stopping.abort();
      await running;
      await client.close();
      await pool.end();
    },
  };
}
