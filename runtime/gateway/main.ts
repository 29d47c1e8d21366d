import { fileURLToPath } from "node:url";
import { UserError } from "../common/errors.ts";
import { createAssertionSigner } from "../common/identity.ts";
import { createLogger, type Logger } from "../common/logging.ts";
import { createPool, migrate } from "../common/postgres.ts";
import { serve } from "../common/server.ts";
import { startTelemetry } from "../common/telemetry.ts";
import { createApp } from "./app.ts";
import { createDevTokenVerifier } from "./authentication/dev-token.ts";
import { createJwtVerifier } from "./authentication/jwt.ts";
import { createKeySet, loadKeysFromFile, loadKeysFromUrl } from "./authentication/key-set.ts";
import { anyOf, type TokenVerifier } from "./authentication/token-verifier.ts";
import {
  type GatewayConfiguration,
  type JwtConfiguration,
  readConfiguration,
} from "./configuration.ts";
import { keepSweeping } from "./console/retention.ts";
import { createTraceStore } from "./console/trace-store.ts";
import { createProxy } from "./proxy/proxy.ts";
import { createStaticRoutes } from "./route-table.ts";

const SERVICE = "gateway";
const MIGRATIONS = fileURLToPath(new URL("./migrations", import.meta.url));

async function main(): Promise<void> {
  const configuration = readConfiguration(process.env);
  const logger = createLogger(SERVICE, configuration.logLevel);
  await migrate(configuration.databaseUrl, "tracing", MIGRATIONS, logger);

  const telemetry = await startTelemetry({
    service: SERVICE,
    logger,
    otlpEndpoint: configuration.otlpEndpoint,
    spanStoreUrl: configuration.spansDatabaseUrl,
  });
  const pool = createPool(configuration.databaseUrl, logger, { max: 4, applicationName: SERVICE });
  const sweeper = keepSweeping(pool, logger);
  const proxy = createProxy({ bodyLimitBytes: configuration.bodyLimitBytes });
  const routes = createStaticRoutes(configuration.routes);
  const readiness = { ready: true };

  const app = createApp({
    logger,
    proxy,
    routes,
    readiness,
    tracer: telemetry.tracer,
    hosts: configuration.hosts,
    modelGateway: configuration.modelGateway,
    verifier: verifierOf(configuration, logger),
    signer: await createAssertionSigner(configuration.assertionPrivateKey),
    console: {
      logger,
      routes,
      hosts: configuration.hosts,
      credentials: configuration.console,
      traces: createTraceStore(pool),
      devToken: configuration.devToken?.token,
      now: Date.now,
    },
  });
  await serve({
    fetch: app.fetch,
    hosts: configuration.bindAddresses,
    port: configuration.port,
    drainMs: configuration.drainMs,
    logger,
    beforeDrain: () => {
      readiness.ready = false;
    },
    afterDrain: async () => {
      sweeper.stop();
      await Promise.all([proxy.close(), telemetry.shutdown(), pool.end()]);
    },
  });
}

function verifierOf(configuration: GatewayConfiguration, logger: Logger): TokenVerifier {
  const verifiers: TokenVerifier[] = [];
  const { devToken, jwt } = configuration;
  if (devToken !== undefined) {
    verifiers.push(createDevTokenVerifier(devToken.token, devToken.tenant));
  }
  if (jwt !== undefined) {
    const keys = createKeySet({ load: () => loadKeys(jwt.keys), logger });
    verifiers.push(createJwtVerifier({ keys, issuer: jwt.issuer, audience: jwt.audience }));
  }
  return anyOf(verifiers);
}

function loadKeys(source: JwtConfiguration["keys"]): Promise<unknown> {
  return "url" in source ? loadKeysFromUrl(source.url) : loadKeysFromFile(source.file);
}

main().catch((error: unknown) => {
  const logger = createLogger(SERVICE);
  if (error instanceof UserError) logger.fatal({ hint: error.hint }, error.message);
  else logger.fatal({ err: error }, "the gateway could not start");
  process.exit(error instanceof UserError ? error.exitCode : 1);
});
