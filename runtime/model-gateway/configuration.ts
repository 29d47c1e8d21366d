import { z } from "zod";
import { readEnvironment } from "../common/configuration.ts";
import { UserError } from "../common/errors.ts";
import type { Provider } from "./providers/provider.ts";
import { configuredProviders, defaultModel, findRoute } from "./providers/registry.ts";

const milliseconds = (fallback: number) => z.coerce.number().int().positive().default(fallback);

const environment = z.object({
  PORT: z.coerce.number().int().min(0).max(65_535).default(8000),
  BIND_ADDRESSES: z
    .string()
    .default("0.0.0.0")
    .transform((list) => list.split(",").map((address) => address.trim())),
  LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"]).default("info"),
  DRAIN_MS: milliseconds(30_000),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.string().optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.string().optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z.string().optional(),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: z.string().optional(),
  SPANS_DATABASE_URL: z.string().optional(),
  DATABASE_URL: z.string(),
  ASSERTION_PUBLIC_KEY: z.string(),
  /** A fixed consumer token and its tenant: for installations on one's own machine only. */
  DEV_TOKEN: z.string().min(1).optional(),
  DEV_TENANT: z.string().min(1).optional(),
  BODY_LIMIT_BYTES: z.coerce
    .number()
    .int()
    .positive()
    .default(10 * 1024 * 1024),
  UPSTREAM_DEADLINE_MS: milliseconds(300_000),
  UPSTREAM_IDLE_MS: milliseconds(300_000),
});

/** The model gateway's settings; the providers' own are in {@link Configuration.providers}. */
export interface Configuration extends z.output<typeof environment> {
  /** In order of precedence for the default model. */
  providers: Provider[];
  defaultModel: string | undefined;
}

/** @throws UserError that names what is missing or wrong. */
export function readConfiguration(variables: NodeJS.ProcessEnv): Configuration {
  const settings = readEnvironment(environment, variables);
  const providers = configuredProviders(variables);
  const model = defaultModel(variables);
  if (model !== undefined && findRoute(providers, model) === undefined) {
    throw new UserError(
      "default_model",
      `DEFAULT_LLM_MODEL is ${model}, which no configured provider serves.`,
      "Set the variable of its provider, or choose another default model.",
      2,
    );
  }
  return { ...settings, providers, defaultModel: model };
}
