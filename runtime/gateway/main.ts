import { fileURLToPath } from "node:url";
import { UserError } from "../common/errors.ts";
import { createAssertionSigner } from "../common/identity.ts";
import { createLogger, type Logger } from "../common/logging.ts";
import { createPool, migrate } from "../common/postgres.ts";
import { serve } from "../common/server.ts";
import { startTelemetry } from "../common/telemetry.ts";
import { createApp } from "./app.ts";
import { readPlatformKeys } from "./authentication/platform-keys.ts";
import { createVerifier } from "./authentication/verifier.ts";
import { type OwnConsole, type RoutesConfiguration, readConfiguration } from "./configuration.ts";
import { keepSweeping } from "./console/retention.ts";
import { createTraceStore } from "./console/trace-store.ts";
import { createProxy } from "./proxy/proxy.ts";
import { createStaticRoutes, type RouteTable } from "./route-table.ts";
import type { Readiness } from "./routes/probes.ts";

const SERVICE = "gateway";
const MIGRATIONS = fileURLToPath(new URL("./migrations", import.meta.url));

async function main(): Promise<void> {
  const configuration = readConfiguration(process.env);
  const logger = createLogger(SERVICE, configuration.logLevel);
  const { platformTokens, devToken, hosts } = configuration;
  const publicKeys =
    platformTokens === undefined ? [] : await readPlatformKeys(platformTokens.publicKeys);
  const ownConsole = configuration.console && (await openConsole(configuration.console, logger));
  const telemetry = await startTelemetry({
    service: SERVICE,
    logger,
    otlpEndpoint: configuration.otlpEndpoint,
    spanStoreUrl: configuration.spansDatabaseUrl,
  });
  const proxy = createProxy({ bodyLimitBytes: configuration.bodyLimitBytes });
  const { routes, synced, stop } = await openRoutes(configuration.routes, logger);
  const readiness: Readiness = { state: "starting" };
  void synced.then(() => {
    if (readiness.state === "starting") readiness.state = "ready";
  });

  const app = createApp({
    logger,
    proxy,
    routes,
    readiness,
    hosts,
    publicKeys,
    corsOrigins: configuration.corsOrigins,
    tracer: telemetry.tracer,
    modelGateway: configuration.modelGateway,
    toolGateway: configuration.toolGateway,
    traceUi: configuration.traceUi,
    verifier: createVerifier(configuration, publicKeys, logger),
    signer: await createAssertionSigner(configuration.assertionPrivateKey),
    console: {
      logger,
      routes,
      hosts,
      own: ownConsole,
      devToken: devToken?.token,
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
      readiness.state = "stopping";
    },
    afterDrain: async () => {
      await Promise.all([stop(), proxy.close(), telemetry.shutdown(), ownConsole?.close()]);
    },
  });
}

/** The console's own traces: their schema, the store, and what keeps it from growing for ever. */
async function openConsole({ databaseUrl, credentials }: OwnConsole, logger: Logger) {
  await migrate(databaseUrl, "tracing", MIGRATIONS, logger);
  const pool = createPool(databaseUrl, logger, { max: 4, applicationName: SERVICE });
  const sweeper = keepSweeping(pool, logger);
  return {
    credentials,
    traces: createTraceStore(pool),
    async close() {
      sweeper.stop();
      await pool.end();
    },
  };
}

interface OpenRoutes {
  routes: RouteTable;
  /** Resolves once calls can be routed. */
  synced: Promise<void>;
  stop(): Promise<void>;
}

async function openRoutes(from: RoutesConfiguration, logger: Logger): Promise<OpenRoutes> {
  if (from.from === "list") {
    const routes = createStaticRoutes(from.routes);
    return { routes, synced: Promise.resolve(), stop: async () => {} };
  }
  // Loaded only in a cluster.
  const { createKubernetesClient } = await import("../common/kubernetes/client.ts");
  const { watchRoutes } = await import("./kubernetes-routes/watch-routes.ts");
  const client = await createKubernetesClient(from.access);
  const { gateway, gatewayClass } = from;
  const routes = watchRoutes({ client, logger, gateway, gatewayClass });
  return {
    routes,
    synced: routes.synced,
    async stop() {
      routes.stop();
      await client.close();
    },
  };
}

main().catch((error: unknown) => {
  const logger = createLogger(SERVICE);
  if (error instanceof UserError) logger.fatal({ hint: error.hint }, error.message);
  else logger.fatal({ err: error }, "the gateway could not start");
  process.exit(error instanceof UserError ? error.exitCode : 1);
});
