import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import { readEnvironment } from "../common/configuration.ts";
import { UserError } from "../common/errors.ts";
import { createAssertionVerifier } from "../common/identity.ts";
import { createLogger, type Logger } from "../common/logging.ts";
import { createPool, migrate, overConnectionLoss } from "../common/postgres.ts";
import { serve } from "../common/server.ts";
import { startTelemetry } from "../common/telemetry.ts";
import { instrumentFetch } from "./agent-context.ts";
import { createApp } from "./app.ts";
import { type Configuration, configuration } from "./configuration.ts";
import type { EventBus } from "./event-bus.ts";
import { createPostgresEventBus } from "./event-bus-postgres.ts";
import { Executor } from "./executor.ts";
import { loadGraphs } from "./graphs.ts";
import { Queue } from "./queue.ts";
import { RunClaims } from "./run-claims.ts";
import { RunService } from "./run-service.ts";
import { RunStore } from "./run-store.ts";
import { handleStrayErrors } from "./stray-errors.ts";
import { ThreadService } from "./thread-service.ts";
import { ThreadStore } from "./thread-store.ts";

/** How long it may take to give back what could not be finished, in ms. */
const LEAVE_MS = 2_000;
/** Less than a probe waits, so that who asks hears why. */
const PROBE_MS = 2_000;
const MIGRATIONS = fileURLToPath(new URL("./migrations", import.meta.url));

async function main(): Promise<void> {
  const config = readEnvironment(configuration, process.env);
  const logger = createLogger("worker", config.LOG_LEVEL);
  const telemetry = await startTelemetry({
    service: "worker",
    logger,
    otlpEndpoint: config.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? config.OTEL_EXPORTER_OTLP_ENDPOINT,
    spanStoreUrl: config.SPANS_DATABASE_URL,
  });
  let fail = async () => {};
  handleStrayErrors(logger, () => void fail().finally(() => process.exit(1)));
  instrumentFetch(config.OPENAI_BASE_URL === undefined ? [] : [config.OPENAI_BASE_URL]);

  const url = config.DATABASE_URL;
  const schema = config.DATABASE_SCHEMA;
  await migrate(url, schema, MIGRATIONS, logger);
  const graphs = await loadGraphs(config.LANGGRAPH_CONFIG);

  const max = config.DATABASE_CONNECTIONS;
  const pool = createPool(url, logger, { max, applicationName: "worker" });
  const bus = await createEventBus(config, pool, logger);
  const store = new RunStore(pool, config.LEASE_MS);
  const claims = new RunClaims(pool, config.LEASE_MS);
  const executor = new Executor({
    claims,
    bus,
    graphs,
    pool,
    schema,
    tracer: telemetry.tracer,
    logger,
  });
  const queue = new Queue(
    { claims, bus, executor, graphIds: [...graphs.keys()], logger },
    {
      concurrentRuns: config.CONCURRENT_RUNS,
      heartbeatMs: config.HEARTBEAT_MS,
      reaperMs: config.REAPER_MS,
      maxAttempts: config.MAX_ATTEMPTS,
    },
  );
  const threads = new ThreadStore(pool);
  let isStopping = false;
  const app = createApp({
    verifier: await createAssertionVerifier(config.ASSERTION_PUBLIC_KEY),
    graphs,
    runs: new RunService({ store, bus, queue, executor, graphs }),
    store,
    threads,
    states: new ThreadService({ threads, runs: store, pool, schema, graphs }),
    bus,
    isReady: async () => !isStopping && (await answers(pool)),
    isStopping: () => isStopping,
    bodyLimitBytes: config.BODY_LIMIT_BYTES,
    logger,
  });

  // Not `stop`: what is left behind counts as an attempt, since one of these runs may be the reason.
  fail = async () => {
    isStopping = true;
    const left = Promise.all([queue.stop(), executor.drain(0, "worker fails")]);
    await within(LEAVE_MS, left, logger);
  };
  await bus.start();
  let deadline = 0;
  let queueStopped: Promise<void> | undefined;
  await serve({
    fetch: app.fetch,
    hosts: config.BIND_ADDRESSES,
    port: config.PORT,
    logger,
    drainMs: config.DRAIN_MS,
    beforeDrain: () => {
      isStopping = true;
      deadline = Date.now() + config.DRAIN_MS;
      queueStopped = queue.stop();
    },
    afterDrain: async () => {
      const leave = async () => {
        await Promise.all([queueStopped, executor.drain(deadline)]);
        queue.close();
        await bus.close();
        await Promise.all([pool.end(), telemetry.shutdown()]);
      };
      await within(Math.max(0, deadline - Date.now()) + LEAVE_MS, leave(), logger);
    },
  });
  // Only now: what waits in the queue may be an agent that gives nobody a turn any more.
  queue.start();
}

/** While the database is away nothing can be given back: the leases will run out. */
async function within(milliseconds: number, leaving: Promise<unknown>, logger: Logger) {
  const left = leaving.catch((error: unknown) => logger.error({ err: error }, "left in disorder"));
  await Promise.race([left, delay(milliseconds)]);
}

async function createEventBus(
  config: Configuration,
  pool: pg.Pool,
  logger: Logger,
): Promise<EventBus> {
  const { DATABASE_URL, DATABASE_SCHEMA, REDIS_URL, REDIS_PREFIX } = config;
  if (REDIS_URL === undefined || REDIS_PREFIX === undefined) {
    return createPostgresEventBus(pool, DATABASE_URL, `${DATABASE_SCHEMA}_signals`, logger);
  }
  // Loaded only where it is used: an embedded installation has no Redis.
  const { createRedisEventBus } = await import("./event-bus-redis.ts");
  return createRedisEventBus(pool, { url: REDIS_URL, prefix: REDIS_PREFIX }, logger);
}

async function answers(pool: pg.Pool): Promise<boolean> {
  try {
    await overConnectionLoss(PROBE_MS, () => pool.query("SELECT 1"));
    return true;
  } catch {
    // Not ready is all that a probe wants to know; the pool logs why.
    return false;
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  process.stderr.write(`${error.message}\n${error.hint}\n`);
  process.exit(error.exitCode);
}
