import { fileURLToPath } from "node:url";
import { UserError } from "../common/errors.ts";
import { createAssertionVerifier } from "../common/identity.ts";
import { createLogger } from "../common/logging.ts";
import { createPool, migrate } from "../common/postgres.ts";
import { serve } from "../common/server.ts";
import { startTelemetry } from "../common/telemetry.ts";
import { createApp } from "./app.ts";
import { createIdentifyCaller } from "./caller.ts";
import { readConfiguration } from "./configuration.ts";
import { createConsumerTokens, enterDevToken } from "./consumer-tokens.ts";
import { createIsInnerHop } from "./inner-hop.ts";
import { createModelList } from "./model-list.ts";
import { selectTokens } from "./token-lookup.ts";
import { traceCollector } from "./trace-relay.ts";
import { createAgent, createTransport } from "./transport.ts";
import { createUpstream } from "./upstream.ts";
import { createUsageRecorder, insertUsage } from "./usage-recorder.ts";

const SERVICE = "model-gateway";
const RETRY_PAUSE_MS = 250;

const MIGRATIONS = fileURLToPath(new URL("./migrations", import.meta.url));

async function main(): Promise<void> {
  const configuration = readConfiguration(process.env);
  const logger = createLogger(SERVICE, configuration.LOG_LEVEL);
  const { providers, defaultModel } = configuration;
  if (providers.length === 0) logger.warn("no provider is configured: every model is refused");
  else logger.info({ providers: providers.map(({ name }) => name), defaultModel }, "providers");

  await migrate(configuration.DATABASE_URL, "model_gateway", MIGRATIONS, logger);

  const telemetry = await startTelemetry({
    service: SERVICE,
    logger,
    otlpEndpoint:
      configuration.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? configuration.OTEL_EXPORTER_OTLP_ENDPOINT,
    spanStoreUrl: configuration.SPANS_DATABASE_URL,
  });
  const pool = createPool(configuration.DATABASE_URL, logger, { applicationName: SERVICE });
  if (configuration.DEV_TOKEN !== undefined && configuration.DEV_TENANT !== undefined) {
    await enterDevToken(pool, configuration.DEV_TOKEN, configuration.DEV_TENANT);
  }
  const agent = createAgent(configuration.UPSTREAM_IDLE_MS);
  const send = createTransport(agent);
  const usage = createUsageRecorder({ insert: insertUsage(pool), logger });
  const verifier = await createAssertionVerifier(configuration.ASSERTION_PUBLIC_KEY);
  const tokens = createConsumerTokens({ select: selectTokens(pool), logger });
  let stopping = false;

  const app = createApp({
    identify: createIdentifyCaller(tokens, verifier),
    providers,
    upstream: createUpstream({ send, retryPauseMs: RETRY_PAUSE_MS, logger }),
    listModels: createModelList({ providers, defaultModel, send, logger }),
    usage,
    bodyLimitBytes: configuration.BODY_LIMIT_BYTES,
    deadlineMs: configuration.UPSTREAM_DEADLINE_MS,
    tracer: telemetry.tracer,
    isInnerHop: createIsInnerHop(verifier),
    collector: traceCollector(configuration),
    logger,
    isReady: () => !stopping,
  });

  await serve({
    fetch: app.fetch,
    hosts: configuration.BIND_ADDRESSES,
    port: configuration.PORT,
    logger,
    drainMs: configuration.DRAIN_MS,
    beforeDrain: () => {
      stopping = true;
    },
    afterDrain: async () => {
      await usage.close();
      await Promise.all([telemetry.shutdown(), agent.destroy(), pool.end()]);
    },
  });
}

main().catch((error: unknown) => {
  const logger = createLogger(SERVICE);
  if (error instanceof UserError) logger.fatal({ hint: error.hint }, error.message);
  else logger.fatal({ err: error }, "the model gateway could not start");
  process.exit(error instanceof UserError ? error.exitCode : 1);
});
