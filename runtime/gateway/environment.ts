import { z } from "zod";
import { agentDeclaration } from "../common/agent.ts";
import { pageOrigin } from "./hosts.ts";

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
const url = z.url({ protocol: /^https?$/ });
const origins = z
  .string()
  .transform((list) => list.split(",").map((origin) => origin.trim()))
  .pipe(z.array(pageOrigin));
const port = z.coerce.number().int().min(0).max(65_535);
/** Where the kubelet puts what a pod needs to talk to the API server. */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

const variables = z.object({
  PORT: port.default(8088),
  BIND_ADDRESSES: z.string().default("0.0.0.0"),
  LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "fatal"]).default("info"),
  DRAIN_MS: count(30_000),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.string().optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.string().optional(),
  SPANS_DATABASE_URL: z.string().optional(),
  ROUTES: routesVariable.optional(),
  ROUTES_FROM: z.literal("kubernetes").optional(),
  GATEWAY_NAME: z.string().optional(),
  GATEWAY_NAMESPACE: z.string().optional(),
  GATEWAY_CLASS: z.string().optional(),
  KUBERNETES_SERVICE_HOST: z.string().optional(),
  KUBERNETES_SERVICE_PORT: port.default(443),
  /** In place of what a pod is told, e.g. the address of `kubectl proxy`. */
  KUBERNETES_API_URL: url.optional(),
  KUBERNETES_TOKEN_FILE: z.string().optional(),
  KUBERNETES_CA_FILE: z.string().optional(),
  MODEL_GATEWAY_URL: url,
  TRACES_URL: url.optional(),
  MCP_URL: url.optional(),
  /** Origins of pages that may call agents, models and tools: `https://studio.example,…`. */
  CORS_ORIGINS: origins.default([]),
  BODY_LIMIT_BYTES: count(10 * 1024 * 1024),
  ASSERTION_PRIVATE_KEY: z.string(),
  DEV_TOKEN: z.string().optional(),
  DEV_TENANT: z.string().optional(),
  JWT_JWKS_URL: url.optional(),
  JWT_JWKS_FILE: z.string().optional(),
  JWT_ISSUER: z.string().optional(),
  JWT_AUDIENCE: z.string().optional(),
  TOKEN_SIGNING_PUBLIC_KEYS: z.string().optional(),
  TOKEN_AUDIENCE: z.string().optional(),
  DATABASE_URL: z.string().optional(),
  CONSOLE_EMAIL: z.string().optional(),
  CONSOLE_PASSWORD: z.string().optional(),
  CONSOLE_SESSION_SECRET: z.string().min(32, "use at least 32 characters").optional(),
  AGENTS_HOST: z.string().optional(),
  AI_GATEWAY_HOST: z.string().optional(),
  TRACES_HOST: z.string().optional(),
  MCP_HOST: z.string().optional(),
  CONSOLE_HOST: z.string().optional(),
});

type Variables = z.output<typeof variables>;
type Need = (name: keyof Variables, message: string) => void;

/** The gateway's environment, and which of its variables go together. */
export const environment = variables.superRefine((env, context) => {
  const need: Need = (name, message) => context.addIssue({ code: "custom", path: [name], message });
  checkRoutes(env, need);
  checkTokens(env, need);
  checkConsole(env, need);
});

export type Environment = z.output<typeof environment>;

function checkRoutes(env: Variables, need: Need): void {
  if (env.ROUTES_FROM === undefined) {
    if (env.ROUTES === undefined) need("ROUTES", "or ROUTES_FROM=kubernetes says where agents are");
    return;
  }
  if (env.ROUTES !== undefined) need("ROUTES", "can't be used together with ROUTES_FROM");
  for (const name of ["GATEWAY_NAME", "GATEWAY_NAMESPACE", "GATEWAY_CLASS"] as const) {
    if (env[name] === undefined) need(name, "goes with ROUTES_FROM");
  }
  if (env.KUBERNETES_API_URL === undefined && env.KUBERNETES_SERVICE_HOST === undefined) {
    need("KUBERNETES_API_URL", "is needed outside of a cluster");
  }
}

function checkTokens(env: Variables, need: Need): void {
  if (env.DEV_TOKEN !== undefined && env.DEV_TENANT === undefined) {
    need("DEV_TENANT", "goes with DEV_TOKEN");
  }
  const keys = [env.JWT_JWKS_URL, env.JWT_JWKS_FILE].filter((source) => source !== undefined);
  // The audience may be there without an issuer: it is that of the platform's own tokens, too.
  const wantsJwt = keys.length > 0 || env.JWT_ISSUER !== undefined;
  if (keys.length > 1) need("JWT_JWKS_FILE", "can't be used together with JWT_JWKS_URL");
  if (wantsJwt && keys.length === 0) need("JWT_JWKS_URL", "goes with JWT_ISSUER");
  if (wantsJwt && env.JWT_ISSUER === undefined) need("JWT_ISSUER", "goes with the keys");
  if (wantsJwt && env.JWT_AUDIENCE === undefined) need("JWT_AUDIENCE", "goes with the keys");
  const hasOther = env.DEV_TOKEN !== undefined || env.TOKEN_SIGNING_PUBLIC_KEYS !== undefined;
  if (!wantsJwt && !hasOther) {
    need(
      "JWT_JWKS_URL",
      "without it, TOKEN_SIGNING_PUBLIC_KEYS or DEV_TOKEN no call could be let in",
    );
  }
}

const CONSOLE = [
  "DATABASE_URL",
  "CONSOLE_EMAIL",
  "CONSOLE_PASSWORD",
  "CONSOLE_SESSION_SECRET",
] as const;

function checkConsole(env: Variables, need: Need): void {
  const missing = CONSOLE.filter((name) => env[name] === undefined);
  if (missing.length === CONSOLE.length) return;
  for (const name of missing) need(name, "goes with the other variables of the console");
  if (env.TRACES_URL !== undefined) {
    need("TRACES_URL", "can't be used together with the console's own traces (DATABASE_URL)");
  }
}

/** The paths at which a pod finds its credentials. */
export const serviceAccountFiles = {
  token: `${SERVICE_ACCOUNT}/token`,
  ca: `${SERVICE_ACCOUNT}/ca.crt`,
};
