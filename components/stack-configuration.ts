import { z } from "zod";
import { pageOrigin } from "../runtime/gateway/hosts.ts";
import {
  defaultModel,
  isProviderSetting,
  PROVIDER_VARIABLES,
  providerSettings,
  settingsLike,
} from "../runtime/model-gateway/providers/registry.ts";
import { type ArtifactName, IMAGES, type ImageName } from "./artifacts.ts";
import { configurationProblems } from "./configuration-problems.ts";
import { egressSettings } from "./egress.ts";
import { platformWays } from "./platform-ways.ts";
import { certificates } from "./trusted-certificates.ts";

/** A variable of a model provider: a misspelt one would leave another in force without a word. */
const providerVariable = z.string().refine(isProviderSetting, {
  error: ({ input }) =>
    `no provider has such a variable; there are ${settingsLike(String(input)).join(", ")}`,
});

// What refines the whole takes these URLs apart, so it waits until they are some: `abort`.
const postgresUrl = z.url({
  abort: true,
  protocol: /^postgres(ql)?$/,
  error: ({ input }) => (input === undefined ? "is missing" : "must be a postgres:// URL"),
});

const httpUrl = z.url({ abort: true, protocol: /^https?$/, error: "must be an http or https URL" });
const artifact = z.strictObject({
  location: z.string(),
  checksum: z
    .string()
    .regex(/^([0-9a-f]{64}|[0-9a-f]{128})$/, "give SHA-256 or SHA-512 in hexadecimal"),
});
const RESERVED_NAMESPACE = /^(kube-.*|platform)$/;
const IMAGE_NAMES = Object.keys(IMAGES) as ImageName[];
const ARTIFACT_NAMES: ArtifactName[] = ["gvisor", "gatewayApi"];

/** The fields of an object that may have each of these names. */
function eachOptional<Name extends string, Value extends z.ZodType>(names: Name[], value: Value) {
  return Object.fromEntries(names.map((name) => [name, value.optional()])) as Record<
    Name,
    z.ZodOptional<Value>
  >;
}

/** What a stack may set, `platform:<key>`. Objects are JSON or YAML maps in the stack's file. */
export const stackSchema = z
  .strictObject({
    /** A kind cluster of our own, or one that is there. */
    cluster: z.enum(["kind", "existing"]).default("kind"),
    clusterName: z
      .string()
      .regex(/^[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?$/, "use lower-case letters, digits and hyphens")
      .default("platform"),
    kubeContext: z.string().optional(),
    kubeconfig: z.string().optional(),
    hostPort: z.number().int().min(1).max(65_535).default(8088),
    version: z.string().default("2.3.1"),
    sandbox: z.enum(["gvisor", "none"]).default("gvisor"),
    runtimeClassName: z.string().default("gvisor"),
    registry: z.string().optional(),
    /** The processor that our images are built for, where it is not this machine's. */
    imagePlatform: z
      .string()
      .regex(/^linux\/[a-z0-9]+(\/v[0-9]+)?$/, "is no platform such as linux/amd64")
      .optional(),
    images: z.strictObject(eachOptional(IMAGE_NAMES, z.string())).default({}),
    /** Whether the stack brings Gateway API's resource definitions, or they are there already. */
    gatewayApi: z.enum(["install", "present"]).default("install"),
    artifacts: z.strictObject(eachOptional(ARTIFACT_NAMES, artifact)).default({}),
    hosts: z
      .strictObject({
        agents: z.string(),
        aiGateway: z.string(),
        traces: z.string(),
        mcp: z.string(),
        console: z.string(),
      })
      .default({
        agents: "agents.localhost",
        aiGateway: "ai-gateway.localhost",
        traces: "traces.localhost",
        mcp: "mcp.localhost",
        console: "console.localhost",
      }),
    /** Origins of web pages that may call agents, models and tools from a browser. */
    corsOrigins: z.array(pageOrigin).default([]),
    /** Credentials and base URLs of the model providers, by their environment variables. */
    providers: z.record(providerVariable, z.string()).default({}),
    demo: z.boolean().default(false),
    defaultModel: z.string().optional(),
    samples: z.boolean().default(true),
    /** Where agents live. The platform cuts every pod in it off from the network, save for agents' ways. */
    agentsNamespace: z
      .string()
      .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "must be the name of a namespace")
      .default("default"),
    devTokens: z.boolean().default(false),
    /** A PostgreSQL that somebody else runs: the provisioner's role and the model gateway's own. */
    database: z.strictObject({ url: postgresUrl, modelGatewayUrl: postgresUrl }).optional(),
    cache: z.strictObject({ url: z.url({ abort: true, protocol: /^rediss?$/ }) }).optional(),
    oidc: z.strictObject({ issuer: z.string(), audience: z.string(), jwksUri: httpUrl }).optional(),
    /** CAs that programs and agents trust beside the public ones, as certificates in PEM. */
    trustedCertificates: certificates.optional(),
    /** Ways out that network policies have to be told, as egress rules of Kubernetes. */
    egress: egressSettings.default({ except: [] }),
    replicas: z.number().int().min(1).default(1),
    /** More of them under load, from `replicas` up. Needs the cluster's metrics server. */
    autoscaling: z
      .strictObject({
        maxReplicas: z.number().int().min(1),
        targetCPUUtilizationPercentage: z.number().int().min(1).max(100).default(70),
      })
      .optional(),
  })
  .refine(
    ({ demo, providers }) =>
      demo || PROVIDER_VARIABLES.some((name) => providers[name] !== undefined),
    {
      path: ["providers"],
      message: `needs at least one of ${PROVIDER_VARIABLES.join(", ")} (or set platform:demo)`,
    },
  )
  .refine(({ database }) => database === undefined || !isSameRole(database), {
    path: ["database", "modelGatewayUrl"],
    message:
      "logs in as the role of platform:database.url: give the model gateway a role of its own, since that one may make roles (docs/external-database.md)",
  })
  .refine(({ cluster, kubeContext }) => cluster === "kind" || kubeContext !== undefined, {
    path: ["kubeContext"],
    message: "is needed where platform:cluster is existing: name the context to install into",
  })
  .refine(({ cluster, registry }) => cluster === "kind" || registry !== undefined, {
    path: ["registry"],
    message: "is needed where platform:cluster is existing: nodes pull our images from it",
  })
  .refine(({ cluster, devTokens }) => cluster === "kind" || !devTokens, {
    path: ["devTokens"],
    message: "is for clusters of this machine: everybody knows the development token",
  })
  .refine(({ cluster, oidc }) => cluster === "kind" || oidc !== undefined, {
    path: ["oidc"],
    message: "is needed where platform:cluster is existing: it says whose tokens to accept",
  })
  .refine(({ replicas, autoscaling }) => !autoscaling || autoscaling.maxReplicas >= replicas, {
    path: ["autoscaling", "maxReplicas"],
    message: "is less than platform:replicas, which is where it begins",
  })
  .refine(({ agentsNamespace }) => !RESERVED_NAMESPACE.test(agentsNamespace), {
    path: ["agentsNamespace"],
    message: "is a namespace of Kubernetes or of the platform: agents need one of their own",
  })
  .refine(({ cluster, agentsNamespace }) => cluster === "kind" || agentsNamespace !== "default", {
    path: ["agentsNamespace"],
    message:
      "is needed where platform:cluster is existing: all pods in it are cut off from the network, so not the namespace default",
  })
  .superRefine((configuration, context) => {
    for (const { path, message } of platformWays(configuration).problems) {
      context.addIssue({ code: "custom", path, message });
    }
  });

/** By the name alone: two databases of one server share their roles. */
function isSameRole(database: { url: string; modelGatewayUrl: string }): boolean {
  return new URL(database.url).username === new URL(database.modelGatewayUrl).username;
}

export type StackConfiguration = z.output<typeof stackSchema>;

const PREFIX = "platform:";

/**
 * Reads and checks all of a stack's configuration at once.
 *
 * @param all Raw configuration, `platform:key` to text, as Pulumi's runtime has it.
 * @param settings What the installer was told for this stack; it comes before the stack's file.
 * @param environment Where the stack names no providers, those of this environment are taken.
 * @throws Error that names every wrong key; values are never shown, they may be secrets.
 */
export function readStackConfiguration(
  all: Record<string, string>,
  settings: Record<string, unknown> = {},
  environment: NodeJS.ProcessEnv = {},
): StackConfiguration {
  const own = Object.fromEntries(
    Object.entries(all)
      .filter(([key]) => key.startsWith(PREFIX))
      .map(([key, text]) => [key.slice(PREFIX.length), parse(key.slice(PREFIX.length), text)]),
  );
  const result = stackSchema.safeParse({
    providers: providerSettings(environment),
    ...own,
    ...settings,
  });
  if (result.success) return result.data;
  const problems = configurationProblems(stackSchema, result.error.issues, PREFIX);
  throw new Error(
    `The stack's configuration is not valid:\n${problems.join("\n")}\nChange it with: pulumi config set platform:<key> <value>`,
  );
}

const TEXTS = new Set([
  "clusterName",
  "kubeContext",
  "kubeconfig",
  "version",
  "registry",
  "imagePlatform",
  "defaultModel",
  "agentsNamespace",
  "runtimeClassName",
  "trustedCertificates",
]);

/** Pulumi keeps all values as text; numbers, flags and maps are JSON. */
function parse(key: string, text: string): unknown {
  if (TEXTS.has(key)) return text;
  try {
    return JSON.parse(text);
  } catch {
    // A plain word, e.g. kind.
    return text;
  }
}

/** The model of agents that name none. @throws Error where no provider has one. */
export function defaultModelOf(configuration: StackConfiguration): string {
  const { providers, demo } = configuration;
  const model =
    configuration.defaultModel ??
    defaultModel({ ...providers, ...(demo && { DEMO_PROVIDER: "true" }) });
  if (model !== undefined) return model;
  throw new Error(`${PREFIX}defaultModel: no configured provider has a default model; name one.`);
}
