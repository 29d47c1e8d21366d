import { fileURLToPath } from "node:url";
import { createAssertionVerifier } from "../common/identity.ts";
import { createLogger } from "../common/logging.ts";
import { createPool, migrate } from "../common/postgres.ts";
import { serve } from "../common/server.ts";
import { startTelemetry } from "../common/telemetry.ts";
import { createApp } from "./app.ts";
import { createIdentifyCaller } from "./caller.ts";
import { readConfiguration } from "./configuration.ts";
import { createConsumerTokens } from "./consumer-tokens.ts";
import { createModelList } from "./model-list.ts";
import { createAgent, createTransport } from "./transport.ts";
import { createUpstream } from "./upstream.ts";
import { createUsageRecorder, insertUsage } from "./usage-recorder.ts";

const SERVICE = "model-gateway";
const RETRY_PAUSE_MS = 250;

const configuration = readConfiguration(process.env);
const logger = createLogger(SERVICE, configuration.LOG_LEVEL);
const { providers, defaultModel } = configuration;
if (providers.length === 0) logger.warn("no provider is configured: every model is refused");
else logger.info({ providers: providers.map(({ name }) => name), defaultModel }, "providers");

const migrations = fileURLToPath(new URL("migrations", import.meta.url));
await migrate(configuration.DATABASE_URL, "model_gateway", migrations, logger);

const telemetry = await startTelemetry({
  service: SERVICE,
  logger,
  otlpEndpoint:
    configuration.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? configuration.OTEL_EXPORTER_OTLP_ENDPOINT,
  spanStoreUrl: configuration.SPANS_DATABASE_URL,
});
const pool = createPool(configuration.DATABASE_URL, logger, { applicationName: SERVICE });
const agent = createAgent(configuration.UPSTREAM_IDLE_MS);
const send = createTransport(agent);
const usage = createUsageRecorder({ insert: insertUsage(pool), logger });
const verifier = await createAssertionVerifier(configuration.ASSERTION_PUBLIC_KEY);
let stopping = false;

const app = createApp({
  identify: createIdentifyCaller(createConsumerTokens(pool), verifier),
  providers,
  upstream: createUpstream({ send, retryPauseMs: RETRY_PAUSE_MS, logger }),
  listModels: createModelList({ providers, defaultModel, send, logger }),
  usage,
  maxBodyBytes: configuration.MAX_BODY_BYTES,
  deadlineMs: configuration.UPSTREAM_DEADLINE_MS,
  tracer: telemetry.tracer,
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
