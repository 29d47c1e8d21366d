import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { trace } from "@opentelemetry/api";
import { pino } from "pino";
import { createAssertionSigner, generateAssertionKeys } from "../../runtime/common/identity.ts";
import { createApp, type GatewayDeps } from "../../runtime/gateway/app.ts";
import { createDevTokenVerifier } from "../../runtime/gateway/authentication/dev-token.ts";
import type { TraceStore } from "../../runtime/gateway/console/trace-store.ts";
import { hostNames } from "../../runtime/gateway/hosts.ts";
import { createProxy } from "../../runtime/gateway/proxy/proxy.ts";
import { createStaticRoutes } from "../../runtime/gateway/route-table.ts";

export const DEV_TOKEN = "test-dev-token";
export const TENANT = "acme";
export const GRAPH_ID = "assistant";
export const CREDENTIALS = {
  email: "admin@localhost",
  password: "correct horse",
  sessionSecret: "0123456789abcdef0123456789abcdef",
};

/** What every call through the front door needs. */
export const CALL_HEADERS = { authorization: `Bearer ${DEV_TOKEN}`, "x-graph-id": GRAPH_ID };

const keys = generateAssertionKeys();
export const ASSERTION_PUBLIC_KEY = keys.publicKey;

/** The lines that a program logged. */
export interface LogLines {
  lines: Record<string, unknown>[];
}

/** A logger that keeps its lines. */
export function recordingLogger() {
  const log: LogLines = { lines: [] };
  const logger = pino({ level: "debug" }, { write: (line) => log.lines.push(JSON.parse(line)) });
  return { logger, log };
}

const noTraces: TraceStore = {
  list: async () => ({ traces: [] }),
  spansOf: async () => ({ spans: [], total: 0 }),
  graphIds: async () => [],
};

/** The dependencies of a gateway with one agent and a dev token. */
export async function gatewayDeps(
  overrides: Partial<GatewayDeps> & { worker?: URL; traces?: TraceStore; now?: () => number } = {},
): Promise<GatewayDeps> {
  const { worker = new URL("http://127.0.0.1:9"), traces = noTraces, now = Date.now } = overrides;
  const { logger } = recordingLogger();
  const hosts = hostNames.parse({});
  const routes = createStaticRoutes([{ graphId: GRAPH_ID, url: worker.href }]);
  return {
    logger,
    hosts,
    routes,
    readiness: { state: "ready" },
    tracer: trace.getTracer("test"),
    verifier: createDevTokenVerifier(DEV_TOKEN, TENANT),
    signer: await createAssertionSigner(keys.privateKey),
    proxy: createProxy({ bodyLimitBytes: 1024 * 1024 }),
    modelGateway: new URL("http://127.0.0.1:9"),
    toolGateway: undefined,
    traceUi: undefined,
    publicKeys: [],
    corsOrigins: [],
    console: {
      logger,
      hosts,
      routes,
      own: { credentials: CREDENTIALS, traces },
      devToken: DEV_TOKEN,
      now,
    },
    ...overrides,
  };
}

/** A program that listens on a port of its own. */
export interface Listening {
  url: URL;
  stop(): Promise<void>;
}

/** Serves a gateway as the program does. */
export async function startGateway(deps: GatewayDeps): Promise<Listening> {
  const server = createAdaptorServer({ fetch: createApp(deps).fetch });
  const listening = await listen(server);
  return {
    url: listening.url,
    async stop() {
      await listening.stop();
      await deps.proxy.close();
    },
  };
}

/** A plain HTTP server in the place of a worker or a model gateway. */
export function startUpstream(handler: RequestListener, port = 0): Promise<Listening> {
  return listen(createServer(handler), port);
}

async function listen(
  server: ReturnType<typeof createAdaptorServer>,
  port = 0,
): Promise<Listening> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  return {
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        if ("closeAllConnections" in server) server.closeAllConnections();
      }),
  };
}
