import { z } from "zod";
import { agentDeclaration } from "../common/agent.ts";
import { readEnvironment } from "../common/configuration.ts";
import { hostNames } from "./hosts.ts";

const routes = z.array(
  z.strictObject({ graphId: agentDeclaration.shape.graphId, url: z.url({ protocol: /^https?$/ }) }),
);

const routesVariable = z
  .string()
  .transform((text, context): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      context.addIssue({ code: "custom", message: "is not JSON" });
      return z.NEVER;
    }
  })
  .pipe(routes)
  .refine((list) => new Set(list.map(({ graphId }) => graphId)).size === list.length, {
    message: "names a graph id twice",
  });

const count = (standard: number) => z.coerce.number().int().min(0).default(standard);

const environment = z
  .object({
    PORT: z.coerce.number().int().min(0).max(65_535).default(8088),
    BIND_ADDRESSES: z.string().default("0.0.0.0"),
    LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "fatal"]).default("info"),
    DRAIN_MS: count(30_000),
    OTEL_EXPORTER_OTLP_ENDPOINT: z.string().optional(),
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.string().optional(),
    SPANS_DATABASE_URL: z.string().optional(),
    ROUTES: routesVariable,
    MODEL_GATEWAY_URL: z.url({ protocol: /^https?$/ }),
    BODY_LIMIT_BYTES: count(10 * 1024 * 1024),
    ASSERTION_PRIVATE_KEY: z.string(),
    DEV_TOKEN: z.string().optional(),
    DEV_TENANT: z.string().optional(),
    JWT_JWKS_URL: z.url({ protocol: /^https?$/ }).optional(),
    JWT_JWKS_FILE: z.string().optional(),
    JWT_ISSUER: z.string().optional(),
    JWT_AUDIENCE: z.string().optional(),
    DATABASE_URL: z.string(),
    CONSOLE_EMAIL: z.string(),
    CONSOLE_PASSWORD: z.string(),
    CONSOLE_SESSION_SECRET: z.string().min(32, "use at least 32 characters"),
    AGENTS_HOST: z.string().optional(),
    AI_GATEWAY_HOST: z.string().optional(),
    TRACES_HOST: z.string().optional(),
    MCP_HOST: z.string().optional(),
    CONSOLE_HOST: z.string().optional(),
  })
  .superRefine((env, context) => {
    const need = (name: string, message: string) =>
      context.addIssue({ code: "custom", path: [name], message });
    if (env.DEV_TOKEN !== undefined && env.DEV_TENANT === undefined) {
      need("DEV_TENANT", "goes with DEV_TOKEN");
    }
    const keys = [env.JWT_JWKS_URL, env.JWT_JWKS_FILE].filter((source) => source !== undefined);
    const wantsJwt = [...keys, env.JWT_ISSUER, env.JWT_AUDIENCE].some((part) => part !== undefined);
    if (keys.length > 1) need("JWT_JWKS_FILE", "can't be used together with JWT_JWKS_URL");
    if (wantsJwt && keys.length === 0) need("JWT_JWKS_URL", "goes with JWT_ISSUER");
    if (wantsJwt && env.JWT_ISSUER === undefined) need("JWT_ISSUER", "goes with the keys");
    if (wantsJwt && env.JWT_AUDIENCE === undefined) need("JWT_AUDIENCE", "goes with the keys");
    if (!wantsJwt && env.DEV_TOKEN === undefined) {
      need("JWT_JWKS_URL", "without it or DEV_TOKEN no call could be let in");
    }
  });

/** Where the keys of an issuer of JWTs come from, and what its tokens must say. */
export interface JwtConfiguration {
  keys: { url: string } | { file: string };
  issuer: string;
  audience: string;
}

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
    routes: env.ROUTES,
    modelGateway: new URL(env.MODEL_GATEWAY_URL),
    bodyLimitBytes: env.BODY_LIMIT_BYTES,
    assertionPrivateKey: env.ASSERTION_PRIVATE_KEY,
    devToken:
      env.DEV_TOKEN === undefined || env.DEV_TENANT === undefined
        ? undefined
        : { token: env.DEV_TOKEN, tenant: env.DEV_TENANT },
    jwt: jwtOf(env),
    databaseUrl: env.DATABASE_URL,
    console: {
      email: env.CONSOLE_EMAIL,
      password: env.CONSOLE_PASSWORD,
      sessionSecret: env.CONSOLE_SESSION_SECRET,
    },
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

function jwtOf(env: z.output<typeof environment>): JwtConfiguration | undefined {
  const { JWT_JWKS_URL: url, JWT_JWKS_FILE: file, JWT_ISSUER: issuer, JWT_AUDIENCE: aud } = env;
  if (issuer === undefined || aud === undefined) return undefined;
  if (url !== undefined) return { keys: { url }, issuer, audience: aud };
  return file === undefined ? undefined : { keys: { file }, issuer, audience: aud };
}
