import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { pino } from "pino";
import {
  createAssertionVerifier,
  generateAssertionKeys,
  hashToken,
} from "../../runtime/common/identity.ts";
import { type AppDependencies, createApp } from "../../runtime/model-gateway/app.ts";
import { createIdentifyCaller } from "../../runtime/model-gateway/caller.ts";
import type { ConsumerToken } from "../../runtime/model-gateway/consumer-tokens.ts";
import { createIsInnerHop } from "../../runtime/model-gateway/inner-hop.ts";
import { createModelList } from "../../runtime/model-gateway/model-list.ts";
import {
  configuredProviders,
  defaultModel,
} from "../../runtime/model-gateway/providers/registry.ts";
import { createAgent, createTransport } from "../../runtime/model-gateway/transport.ts";
import { createUpstream } from "../../runtime/model-gateway/upstream.ts";
import type { UsageRecord } from "../../runtime/model-gateway/usage-recorder.ts";

export const CONSUMER_TOKEN = "local-dev-token";
export const TENANT = "acme";

/** A model gateway that serves on loopback, with its tokens and its usage in memory. */
export interface TestModelGateway {
  /** Base URL for clients, ending in `/v1`. */
  url: string;
  origin: string;
  usage: UsageRecord[];
  spans(): ReadableSpan[];
  /** Everything that was logged, as JSON lines. */
  logs: string[];
  /** Log lines of requests that were answered. */
  requests(): { path: string; status: number; tenant?: string; graph_id?: string }[];
  assertionPrivateKey: string;
  stop(): Promise<void>;
}

/**
 * @param environment The variables of the providers.
 * @param options.tokens More tokens beside {@link CONSUMER_TOKEN}.
 */
export async function startModelGateway(
  environment: NodeJS.ProcessEnv,
  options: { tokens?: Record<string, ConsumerToken> } & Partial<AppDependencies> & {
      idleMs?: number;
    } = {},
): Promise<TestModelGateway> {
  const { tokens = {}, idleMs = 10_000, ...overrides } = options;
  const keys = generateAssertionKeys();
  const known = new Map(
    Object.entries({ [CONSUMER_TOKEN]: { tenant: TENANT, agent: null }, ...tokens }).map(
      ([token, consumer]) => [hashToken(token), consumer],
    ),
  );
  const verifier = await createAssertionVerifier(keys.publicKey);
  const usage: UsageRecord[] = [];
  const logs: string[] = [];
  const logger = pino({ level: "debug" }, { write: (line: string) => void logs.push(line) });
  const exporter = new InMemorySpanExporter();
  const tracing = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const agent = createAgent(idleMs);
  const send = createTransport(agent);
  const providers = configuredProviders(environment);
  const app = createApp({
    identify: createIdentifyCaller(
      { find: async (token) => known.get(hashToken(token)) },
      verifier,
    ),
    providers,
    upstream: createUpstream({ send, retryPauseMs: 1, logger }),
    listModels: createModelList({
      providers,
      defaultModel: defaultModel(environment),
      send,
      logger,
    }),
    usage: { record: (record) => void usage.push(record), close: async () => {} },
    bodyLimitBytes: 1024 * 1024,
    deadlineMs: 10_000,
    tracer: tracing.getTracer("test"),
    isInnerHop: createIsInnerHop(verifier),
    logger,
    isReady: () => true,
    ...overrides,
  });
  const server = createAdaptorServer({ fetch: app.fetch });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `${origin}/v1`,
    origin,
    usage,
    logs,
    spans: () => exporter.getFinishedSpans(),
    requests: () => logs.map((line) => JSON.parse(line)).filter((line) => "path" in line),
    assertionPrivateKey: keys.privateKey,
    async stop() {
      await new Promise((resolve) => {
        server.close(resolve);
        if ("closeAllConnections" in server) server.closeAllConnections();
      });
      await agent.destroy();
      await tracing.shutdown();
    },
  };
}
