import { z } from "zod";
import { readEnvironment } from "../common/configuration.ts";
import { UserError } from "../common/errors.ts";
import type { ClusterAccess } from "../common/kubernetes/client.ts";
import { clusterAccessOf, clusterVariables } from "../common/kubernetes/cluster-access.ts";

const milliseconds = (fallback: number) => z.coerce.number().int().positive().default(fallback);
const tcpPort = z.coerce.number().int().min(1).max(65_535);
const postgresUrl = z.url({ protocol: /^postgres(ql)?$/, error: "must be a postgres:// URL" });
const redisUrl = z.url({ protocol: /^rediss?$/, error: "must be a redis:// or rediss:// URL" });
const list = (text: string) => text.split(",").map((item) => item.trim());

const environment = z.object({
  PORT: z.coerce.number().int().min(0).max(65_535).default(8000),
  BIND_ADDRESSES: z.string().default("0.0.0.0").transform(list),
  LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "fatal"]).default("info"),
  DRAIN_MS: milliseconds(30_000),
  ...clusterVariables,
  AGENT_NAMESPACES: z
    .string()
    .transform(list)
    .pipe(
      z.array(
        z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "is a list of namespace names"),
      ),
    ),
  DATABASE_ADMIN_URL: postgresUrl,
  /** Where agents reach the database; what is absent is as in DATABASE_ADMIN_URL. */
  DATABASE_HOST: z.string().optional(),
  DATABASE_PORT: tcpPort.optional(),
  DATABASE_NAME: z.string().optional(),
  MODEL_GATEWAY_DATABASE_URL: postgresUrl.optional(),
  REDIS_ADMIN_URL: redisUrl,
  /** Where agents reach the cache; what is absent is as in REDIS_ADMIN_URL. */
  REDIS_HOST: z.string().optional(),
  REDIS_PORT: tcpPort.optional(),
  ASSERTION_PUBLIC_KEY: z.string(),
  OPENAI_BASE_URL: z.url({ protocol: /^https?$/ }),
  DEFAULT_LLM_MODEL: z.string().optional(),
  MCP_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** Where agents send their spans, each with its own model token; without `/v1/traces`. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  /** Sessions that one generation of an agent's credentials may have, over all its replicas. */
  AGENT_DATABASE_CONNECTIONS: z.coerce.number().int().positive().default(60),
  RESYNC_MS: milliseconds(300_000),
  ROTATION_OVERLAP_MS: milliseconds(600_000),
});

/** What every agent is told beside its own credentials. */
export interface AgentSurroundings {
  /** URLs without user and password. */
  databaseUrl: URL;
  redisUrl: URL;
  otlpEndpoint: string | undefined;
  /** Environment variables, as they are. */
  variables: Record<string, string>;
}

/** The provisioner's settings. */
export interface Configuration extends z.output<typeof environment> {
  surroundings: AgentSurroundings;
  cluster: ClusterAccess;
}

/** @throws UserError that names what is missing or wrong. */
export function readConfiguration(variables: NodeJS.ProcessEnv): Configuration {
  const settings = readEnvironment(environment, variables);
  const cluster = clusterAccessOf(settings);
  if (cluster === undefined) {
    throw new UserError(
      "no_cluster",
      "There is no Kubernetes API server: KUBERNETES_SERVICE_HOST is not set.",
      "Run the provisioner in a pod, or set KUBERNETES_API_URL to what kubectl proxy serves.",
      2,
    );
  }
  return { ...settings, surroundings: surroundingsOf(settings), cluster };
}

function surroundingsOf(settings: z.output<typeof environment>): AgentSurroundings {
  const databaseUrl = withoutUser(settings.DATABASE_ADMIN_URL);
  databaseUrl.hostname = settings.DATABASE_HOST ?? databaseUrl.hostname;
  databaseUrl.port = String(settings.DATABASE_PORT ?? databaseUrl.port);
  databaseUrl.pathname = settings.DATABASE_NAME ?? databaseUrl.pathname;
  const redisUrl = withoutUser(settings.REDIS_ADMIN_URL);
  redisUrl.hostname = settings.REDIS_HOST ?? redisUrl.hostname;
  redisUrl.port = String(settings.REDIS_PORT ?? redisUrl.port);
  return {
    databaseUrl,
    redisUrl,
    otlpEndpoint: settings.OTEL_EXPORTER_OTLP_ENDPOINT,
    variables: given({
      OPENAI_BASE_URL: settings.OPENAI_BASE_URL,
      DEFAULT_LLM_MODEL: settings.DEFAULT_LLM_MODEL,
      MCP_URL: settings.MCP_URL,
      ASSERTION_PUBLIC_KEY: settings.ASSERTION_PUBLIC_KEY,
    }),
  };
}

function withoutUser(text: string): URL {
  const url = new URL(text);
  url.username = "";
  url.password = "";
  return url;
}

function given(variables: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as const],
    ),
  );
}
