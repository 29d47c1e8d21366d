import { readEnvironment } from "../common/configuration.ts";
import type { ClusterAccess } from "../common/kubernetes/client.ts";
import { type Environment, environment, serviceAccountFiles } from "./environment.ts";
import { hostNames } from "./hosts.ts";
import type { GatewayName } from "./kubernetes-routes/resources.ts";

/** Where the keys of an issuer of JWTs come from, and what its tokens must say. */
export interface JwtConfiguration {
  keys: { url: string } | { file: string };
  issuer: string;
  audience: string;
}

/** Where the gateway learns which agents there are. */
export type RoutesConfiguration =
  | { from: "list"; routes: { graphId: string; url: string }[] }
  | { from: "kubernetes"; access: ClusterAccess; gateway: GatewayName; gatewayClass: string };

/** What the console needs to show traces of its own. */
export interface OwnConsole {
  databaseUrl: string;
  credentials: { email: string; password: string; sessionSecret: string };
}

/** Tokens that the platform itself has minted. */
export interface PlatformTokens {
  /** SPKI PEM blocks. */
  publicKeys: string;
  audience: string;
}

const PLATFORM_AUDIENCE = "platform";

/**
 * Reads the gateway's environment.
 *
 * @throws UserError that names every wrong variable.
 */
export function readConfiguration(variables: NodeJS.ProcessEnv) {
  const env = readEnvironment(environment, variables);
  return {
    port: env.PORT,
    bindAddresses: env.BIND_ADDRESSES.split(",").map((address) => address.trim()),
    logLevel: env.LOG_LEVEL,
    drainMs: env.DRAIN_MS,
    otlpEndpoint: env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? env.OTEL_EXPORTER_OTLP_ENDPOINT,
    spansDatabaseUrl: env.SPANS_DATABASE_URL,
    routes: routesOf(env),
    modelGateway: new URL(env.MODEL_GATEWAY_URL),
    traceUi: optionalUrl(env.TRACES_URL),
    toolGateway: optionalUrl(env.MCP_URL),
    corsOrigins: env.CORS_ORIGINS,
    bodyLimitBytes: env.BODY_LIMIT_BYTES,
    assertionPrivateKey: env.ASSERTION_PRIVATE_KEY,
    devToken:
      env.DEV_TOKEN === undefined || env.DEV_TENANT === undefined
        ? undefined
        : { token: env.DEV_TOKEN, tenant: env.DEV_TENANT },
    jwt: jwtOf(env),
    platformTokens: platformTokensOf(env),
    console: consoleOf(env),
    hosts: hostNames.parse({
      agents: env.AGENTS_HOST,
      models: env.AI_GATEWAY_HOST,
      traces: env.TRACES_HOST,
      tools: env.MCP_HOST,
      console: env.CONSOLE_HOST,
    }),
  };
}

export type GatewayConfiguration = ReturnType<typeof readConfiguration>;

function routesOf(env: Environment): RoutesConfiguration {
  const { GATEWAY_NAME: name, GATEWAY_NAMESPACE: namespace, GATEWAY_CLASS: gatewayClass } = env;
  if (
    env.ROUTES_FROM === undefined ||
    name === undefined ||
    namespace === undefined ||
    gatewayClass === undefined
  ) {
    return { from: "list", routes: env.ROUTES ?? [] };
  }
  const gateway = { name, namespace };
  return { from: "kubernetes", access: accessOf(env), gateway, gatewayClass };
}

function accessOf(env: Environment): ClusterAccess {
  const { KUBERNETES_API_URL: url, KUBERNETES_TOKEN_FILE: token, KUBERNETES_CA_FILE: ca } = env;
  if (url !== undefined) return { server: new URL(url), tokenFile: token, caFile: ca };
  const host = env.KUBERNETES_SERVICE_HOST ?? "";
  const authority = host.includes(":") ? `[${host}]` : host;
  return {
    server: new URL(`https://${authority}:${env.KUBERNETES_SERVICE_PORT}`),
    tokenFile: token ?? serviceAccountFiles.token,
    caFile: ca ?? serviceAccountFiles.ca,
  };
}

function jwtOf(env: Environment): JwtConfiguration | undefined {
  const { JWT_JWKS_URL: url, JWT_JWKS_FILE: file, JWT_ISSUER: issuer, JWT_AUDIENCE: aud } = env;
  if (issuer === undefined || aud === undefined) return undefined;
  if (url !== undefined) return { keys: { url }, issuer, audience: aud };
  return file === undefined ? undefined : { keys: { file }, issuer, audience: aud };
}

function platformTokensOf(env: Environment): PlatformTokens | undefined {
  const { TOKEN_SIGNING_PUBLIC_KEYS: publicKeys } = env;
  if (publicKeys === undefined) return undefined;
  return { publicKeys, audience: env.TOKEN_AUDIENCE ?? env.JWT_AUDIENCE ?? PLATFORM_AUDIENCE };
}

function consoleOf(env: Environment): OwnConsole | undefined {
  const { CONSOLE_EMAIL: email, CONSOLE_PASSWORD: password } = env;
  const { DATABASE_URL: databaseUrl, CONSOLE_SESSION_SECRET: sessionSecret } = env;
  if (
    databaseUrl === undefined ||
    email === undefined ||
    password === undefined ||
    sessionSecret === undefined
  ) {
    return undefined;
  }
  return { databaseUrl, credentials: { email, password, sessionSecret } };
}

function optionalUrl(text: string | undefined): URL | undefined {
  return text === undefined ? undefined : new URL(text);
}
