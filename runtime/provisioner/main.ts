import { UserError } from "../common/errors.ts";
import { createKubernetesClient, type KubernetesClient } from "../common/kubernetes/client.ts";
import { createLogger, type Logger } from "../common/logging.ts";
import { createPool } from "../common/postgres.ts";
import { serve } from "../common/server.ts";
import { createApp } from "./app.ts";
import { type Configuration, readConfiguration } from "./configuration.ts";
import { createConsumerTokens } from "./consumer-token.ts";
import { Controller } from "./controller.ts";
import { createEventRecorder } from "./event-recorder.ts";
import { describe } from "./failure.ts";
import { createAgentCluster } from "./kubernetes.ts";
import { standForLeader } from "./leader.ts";
import { createDatabaseRoles } from "./postgres-role.ts";
import { connectRedis, type RedisConnection } from "./redis-connection.ts";
import { createRedisUsers } from "./redis-user.ts";
import { Registry } from "./registry.ts";
import { prepareSchema } from "./schema.ts";

const SERVICE = "provisioner";
const BACKOFF_MS: [number, number] = [500, 15_000];
/** Between the end of a Deployment, or of a roll, and the moment when its last pod is told. */
const MARGIN_MS = 5_000;
const CONNECTIONS = 5;

async function main(): Promise<void> {
  const configuration = readConfiguration(process.env);
  const logger = createLogger(SERVICE, configuration.LOG_LEVEL);
  const { DATABASE_ADMIN_URL, MODEL_GATEWAY_DATABASE_URL } = configuration;
  const pool = createPool(DATABASE_ADMIN_URL, logger, {
    max: CONNECTIONS,
    applicationName: SERVICE,
  });
  await prepareSchema(DATABASE_ADMIN_URL, pool, logger);
  const tokenPool =
    MODEL_GATEWAY_DATABASE_URL === undefined
      ? pool
      : createPool(MODEL_GATEWAY_DATABASE_URL, logger, { max: 2, applicationName: SERVICE });
  const redis = connectRedis(configuration.REDIS_ADMIN_URL, logger);
  const client = await createKubernetesClient(configuration.cluster);
  const database = createDatabaseRoles(pool, configuration.AGENT_DATABASE_CONNECTIONS);

  let controller: Controller | undefined;
  const candidate = standForLeader({
    databaseUrl: DATABASE_ADMIN_URL,
    logger,
    async work(signal) {
      await database.prepare();
      controller = new Controller({
        ...controllerOptions(configuration, client, redis, logger, signal),
        database,
        registry: new Registry(pool),
        tokens: createConsumerTokens(tokenPool),
      });
      await controller.run(signal);
    },
  });
  let isStopping = false;
  const app = createApp({
    standing: () => (isStopping ? "stopping" : candidate.standing),
    isSynced: () => controller?.isSynced ?? false,
    logger,
  });
  await serve({
    fetch: app.fetch,
    hosts: configuration.BIND_ADDRESSES,
    port: configuration.PORT,
    logger,
    drainMs: configuration.DRAIN_MS,
    beforeDrain: async () => {
      isStopping = true;
      await candidate.stop();
    },
    afterDrain: async () => {
      redis.close();
      if (tokenPool !== pool) await tokenPool.end();
      await Promise.all([pool.end(), client.close()]);
    },
  });
}

function controllerOptions(
  configuration: Configuration,
  client: KubernetesClient,
  redis: RedisConnection,
  logger: Logger,
  signal: AbortSignal,
) {
  const cluster = createAgentCluster(client, signal);
  return {
    client,
    cluster,
    logger,
    events: createEventRecorder(cluster, logger),
    redis: createRedisUsers(redis.redis),
    onCacheBack: redis.onBack,
    namespaces: configuration.AGENT_NAMESPACES,
    surroundings: configuration.surroundings,
    resyncMs: configuration.RESYNC_MS,
    overlapMs: configuration.ROTATION_OVERLAP_MS,
    marginMs: MARGIN_MS,
    backoffMs: BACKOFF_MS,
  };
}

main().catch((error: unknown) => {
  const logger = createLogger(SERVICE);
  if (error instanceof UserError) logger.fatal({ hint: error.hint }, error.message);
  else logger.fatal({ error: describe(error) }, "the provisioner could not start");
  process.exit(error instanceof UserError ? error.exitCode : 1);
});
