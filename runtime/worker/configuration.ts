import { z } from "zod";

const milliseconds = (fallback: number) => z.coerce.number().int().positive().default(fallback);

const REDIS_PAIRS = [
  ["REDIS_URL", "REDIS_PREFIX"],
  ["REDIS_PREFIX", "REDIS_URL"],
] as const;

const environment = z.object({
  PORT: z.coerce.number().int().min(0).max(65_535).default(8000),
  BIND_ADDRESSES: z
    .string()
    .default("0.0.0.0")
    .transform((list) => list.split(",")),
  LOG_LEVEL: z.enum(["debug", "info", "warn", "error"]).default("info"),
  DRAIN_MS: milliseconds(30_000),
  DATABASE_URL: z.url(),
  /** Connections to the database; one more listens for signals. */
  DATABASE_CONNECTIONS: z.coerce.number().int().positive().default(20),
  /** The schema of the role's search_path: in a cluster each agent has one of its own. */
  DATABASE_SCHEMA: z
    .string()
    .regex(/^[a-z_][a-z0-9_]{0,54}$/, "use at most 55 lower-case letters, digits and underscores")
    .default("worker"),
  /** Carries events and wake-ups between replicas; without it PostgreSQL does. */
  REDIS_URL: z.url({ protocol: /^rediss?$/ }).optional(),
  /** Before every key and channel; what this agent's user of Redis is bound to. */
  REDIS_PREFIX: z
    .string()
    .regex(/^[\w.:-]{1,200}$/, "use letters, digits and . : - _")
    .optional(),
  LANGGRAPH_CONFIG: z.string().default("langgraph.json"),
  ASSERTION_PUBLIC_KEY: z.string(),
  OPENAI_BASE_URL: z.url().optional(),
  SPANS_DATABASE_URL: z.url().optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url().optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.url().optional(),
  /** Runs executed at a time; more wait in the queue. */
  CONCURRENT_RUNS: z.coerce.number().int().positive().default(64),
  LEASE_MS: milliseconds(15_000),
  HEARTBEAT_MS: milliseconds(5_000),
  REAPER_MS: milliseconds(5_000),
  /** How often a run may be started before it counts as failed. */
  MAX_ATTEMPTS: z.coerce.number().int().positive().default(4),
  BODY_LIMIT_BYTES: z.coerce
    .number()
    .int()
    .positive()
    .default(10 * 1024 * 1024),
});

/** The worker's environment. Durations in ms. */
export const configuration = environment.superRefine((variables, context) => {
  for (const [name, other] of REDIS_PAIRS) {
    if (variables[name] !== undefined || variables[other] === undefined) continue;
    context.addIssue({ code: "custom", path: [name], message: `goes with ${other}` });
  }
});

export type Configuration = z.output<typeof configuration>;
