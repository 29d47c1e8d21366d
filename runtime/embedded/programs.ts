import { join } from "node:path";
import { DEV_TENANT, DEV_TOKEN } from "../common/dev-token.ts";
import { providerSettings } from "../model-gateway/providers/registry.ts";
import type { DeclaredAgent } from "./agents.ts";
import { type DataPaths, logFile } from "./data-directory.ts";
import type { Role } from "./database.ts";
import { Program } from "./program.ts";
import type { Secrets } from "./secrets.ts";
import { confinement, NO_DEBUGGER_BY_SIGNAL } from "./worker-permissions.ts";

export const CONSOLE_EMAIL = "admin@localhost";
/** How long a program finishes what it has begun once it was asked to leave. */
export const DRAIN_MS = 2_500;

/**
 * An agent that computes without giving anyone else a turn silences the worker. After 30 s it is
 * replaced: collections and a busy machine take a few seconds at most, and by then all of its leases
 * (15 s) have run out anyway.
 */
const WORKER_PATIENCE = { everyMs: 5_000, probes: 6 };

const LOOPBACK = "127.0.0.1";
/**
 * Node's default of 16 MiB makes an idle program a third larger than it has to be: what it made
 * while loading stays until a collection that never comes.
 */
const NODE_FLAGS = ["--max-semi-space-size=4", NO_DEBUGGER_BY_SIGNAL];
/** What every program may inherit; of the standard `OTEL_*` variables those that say what to trace. */
const INHERITED =
  /^(?:PATH|LANG|LC_\w+|TZ|LOG_LEVEL|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|OTEL_(?!EXPORTER_)\w+)$/;
/** Where spans go, and the key to it, which opens everybody's traces: not for agents. */
const EXPORTER = /^OTEL_EXPORTER_/;

export interface ProgramsOptions {
  /** The platform's own directory, without symbolic links. */
  checkout: string;
  paths: DataPaths;
  agentsDirectory: string;
  agents: DeclaredAgent[];
  secrets: Secrets;
  environment: NodeJS.ProcessEnv;
  demo: boolean;
  defaultModel: string;
  port: number;
  /** The connection URL of a program's role, once the database is up. */
  databaseUrl: (role: Role) => string;
}

/** The three programs, each with what it must know and no more. */
export interface Programs {
  modelGateway: Program;
  worker: Program;
  gateway: Program;
}

/** Describes the programs; nothing is started. */
export function describePrograms(options: ProgramsOptions): Programs {
  const modelGateway = describeModelGateway(options);
  const worker = describeWorker(options, modelGateway);
  return { modelGateway, worker, gateway: describeGateway(options, modelGateway, worker) };
}

/** The credentials of the model providers go here, and nowhere else. */
function describeModelGateway(options: ProgramsOptions): Program {
  return new Program({
    title: "Model gateway",
    entry: entry(options, "model-gateway"),
    nodeFlags: NODE_FLAGS,
    port: 0,
    logFile: logFile(options.paths, "model-gateway"),
    environment: () => ({
      ...common(options, "model_gateway"),
      ...providerSettings(options.environment),
      ...select(options.environment, (name) => EXPORTER.test(name)),
      ...(options.demo && { DEMO_PROVIDER: "true" }),
      ASSERTION_PUBLIC_KEY: options.secrets.assertionKeys.publicKey,
      DEFAULT_LLM_MODEL: options.defaultModel,
    }),
  });
}

function describeWorker(options: ProgramsOptions, modelGateway: Program): Program {
  const { checkout, agentsDirectory, paths } = options;
  return new Program({
    title: "Worker",
    entry: entry(options, "worker"),
    nodeFlags: [...NODE_FLAGS, ...confinement(checkout, agentsDirectory, [paths.langgraphConfig])],
    port: 0,
    logFile: logFile(paths, "worker"),
    patience: WORKER_PATIENCE,
    environment: () => ({
      ...common(options, "worker"),
      // node-pg-migrate looks for a cache directory when it is loaded, which a confined process may
      // not; it has no use for one here, since our migrations are SQL.
      JITI_FS_CACHE: "false",
      LANGGRAPH_CONFIG: paths.langgraphConfig,
      ASSERTION_PUBLIC_KEY: options.secrets.assertionKeys.publicKey,
      OPENAI_BASE_URL: `${modelGateway.url}/v1`,
      OPENAI_API_KEY: options.secrets.workerToken,
      DEFAULT_LLM_MODEL: options.defaultModel,
      ...exporterThrough(modelGateway, options),
    }),
  });
}

/** Agents' spans go by the model gateway with the worker's own token (docs/decisions/0007). */
function exporterThrough(
  modelGateway: Program,
  { environment, secrets }: ProgramsOptions,
): Record<string, string> {
  const { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT } = environment;
  if (!OTEL_EXPORTER_OTLP_TRACES_ENDPOINT && !OTEL_EXPORTER_OTLP_ENDPOINT) return {};
  const token = encodeURIComponent(`Bearer ${secrets.workerToken}`);
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: `${modelGateway.url}/otlp`,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=${token}`,
  };
}

function describeGateway(options: ProgramsOptions, modelGateway: Program, worker: Program) {
  const { secrets } = options;
  return new Program({
    title: "Gateway",
    entry: entry(options, "gateway"),
    nodeFlags: NODE_FLAGS,
    port: options.port,
    logFile: logFile(options.paths, "gateway"),
    environment: () => ({
      ...common(options, "gateway"),
      BIND_ADDRESSES: `${LOOPBACK},::1`,
      ROUTES: JSON.stringify(options.agents.map(({ graphId }) => ({ graphId, url: worker.url }))),
      MODEL_GATEWAY_URL: modelGateway.url,
      ASSERTION_PRIVATE_KEY: secrets.assertionKeys.privateKey,
      DEV_TOKEN,
      DEV_TENANT,
      CONSOLE_EMAIL,
      CONSOLE_PASSWORD: secrets.consolePassword,
      CONSOLE_SESSION_SECRET: secrets.consoleSessionSecret,
      ...select(options.environment, (name) => name === "CORS_ORIGINS" || EXPORTER.test(name)),
    }),
  });
}

function common(options: ProgramsOptions, role: Role): Record<string, string> {
  const url = options.databaseUrl(role);
  return {
    ...select(options.environment, (name) => INHERITED.test(name)),
    BIND_ADDRESSES: LOOPBACK,
    DRAIN_MS: String(DRAIN_MS),
    DATABASE_URL: url,
    SPANS_DATABASE_URL: url,
  };
}

function entry({ checkout }: ProgramsOptions, program: string): string {
  return join(checkout, "runtime", program, "main.ts");
}

function select(environment: NodeJS.ProcessEnv, wanted: (name: string) => boolean) {
  const entries = Object.entries(environment).flatMap(([name, value]) =>
    value !== undefined && wanted(name) ? [[name, value] as const] : [],
  );
  return Object.fromEntries(entries);
}
