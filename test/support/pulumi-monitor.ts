import * as pulumi from "@pulumi/pulumi";
import type { RegisterResourceRequest } from "@pulumi/pulumi/proto/resource_pb.js";

/** A resource as a program registers it. */
export interface Registered {
  urn: string;
  type: string;
  name: string;
  custom: boolean;
  /** As they go to the engine: a secret is an object of {@link isSecret}. */
  inputs: Record<string, unknown>;
  additionalSecretOutputs: string[];
  /** The URNs of what it was registered after. */
  dependencies: string[];
  deletedWith: string;
  retainOnDelete: boolean;
  ignoreChanges: string[];
  provider: string;
}

// How Pulumi marks a secret on the wire (sdk/nodejs/runtime/rpc.ts).
const SIGNATURE = "4dabf18193072939515e22adb298388d";
const SECRET = "1b47061264138c4ac30d75fd1eb44270";

export function isSecret(value: unknown): value is { value: unknown } {
  return value !== null && typeof value === "object" && Object(value)[SIGNATURE] === SECRET;
}

/** A program's values without the marks of secrets. */
export function plain(value: unknown): unknown {
  if (isSecret(value)) return plain(value.value);
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}

/** What no secret covers: every text of the value that the state would hold in clear. */
export function inClear(value: unknown): string[] {
  if (isSecret(value)) return [];
  if (typeof value === "string") return [value];
  if (value === null || typeof value !== "object") return [];
  return Object.values(value).flatMap(inClear);
}

type Callback = (error: unknown, response: unknown) => void;

/**
 * Notes down what is registered with Pulumi's mocks, and lets them make the URNs that the engine
 * makes: those name all parents, the mocks' own only one.
 */
function watch(registered: Registered[]): void {
  const monitor = pulumi.runtime.getMonitor();
  if (monitor === undefined) throw new Error("Pulumi's mocks are not set.");
  const register = monitor.registerResource.bind(monitor) as (
    request: RegisterResourceRequest,
    callback: Callback,
  ) => unknown;
  Object.assign(monitor, {
    newUrn: urn,
    registerResource(request: RegisterResourceRequest, callback: Callback) {
      registered.push({
        urn: urn(request.getParent(), request.getType(), request.getName()),
        type: request.getType(),
        name: request.getName(),
        custom: request.getCustom(),
        inputs: (request.getObject()?.toJavaScript() ?? {}) as Record<string, unknown>,
        additionalSecretOutputs: request.getAdditionalsecretoutputsList(),
        dependencies: request.getDependenciesList(),
        deletedWith: request.getDeletedwith(),
        ignoreChanges: request.getIgnorechangesList(),
        retainOnDelete: request.getRetainondelete() ?? false,
        provider: request.getProvider(),
      });
      return register(request, callback);
    },
  });
}

function urn(parent: string, type: string, name: string): string {
  const [, , parentType] = parent.split("::");
  const qualified = parentType === undefined ? type : `${parentType}$${type}`;
  return [`urn:pulumi:${pulumi.getStack()}`, pulumi.getProject(), qualified, name].join("::");
}

/** What providers answer. Every secret output is marked as such and can be told by its text. */
export const CANARY = "CANARY";

function stateOf({ type, name, inputs }: pulumi.runtime.MockResourceArgs, preview: boolean) {
  if (preview) return inputs;
  const secret = pulumi.secret(`${CANARY}-${name}`);
  switch (type) {
    case "random:index/randomPassword:RandomPassword":
      return { ...inputs, result: secret };
    case "random:index/randomBytes:RandomBytes":
      // A seed whose text would show wherever it went in clear.
      return { ...inputs, base64: pulumi.secret(CANARY_SEED) };
    case "kindlocal:index:Cluster":
      return { ...inputs, kubeconfig: secret, nodeId: "node-1" };
    case "docker:index/image:Image":
      return {
        ...inputs,
        repoDigest: `${inputs.imageName.split(":")[0]}@sha256:${"d".repeat(64)}`,
      };
    default:
      return inputs;
  }
}

/** 32 bytes, base64. */
export const CANARY_SEED = Buffer.from(`${CANARY}-seed-of-the-assertion`.padEnd(32)).toString(
  "base64",
);

export interface Program<Result> {
  resources: Registered[];
  result: Result;
}

/**
 * Runs a part of a Pulumi program, or all of it, with mocks in place of the engine.
 *
 * @param options.preview As `pulumi preview` does: what providers would answer is unknown.
 */
export async function record<Result>(
  options: { stack?: string; config?: Record<string, string>; preview?: boolean },
  program: () => Promise<Result> | Result,
): Promise<Program<Result>> {
  const preview = options.preview ?? false;
  const stack = options.stack ?? "test";
  const resources: Registered[] = [];
  const mocks: pulumi.runtime.Mocks = {
    newResource: (args) => ({
      id: preview ? undefined : `${args.name}-id`,
      state: stateOf(args, preview),
    }),
    call: ({ inputs }) => inputs,
  };
  await pulumi.runtime.setMocks(mocks, "platform", stack, preview);
  watch(resources);
  pulumi.runtime.setAllConfig(options.config ?? {});
  const result = await program();
  await pulumi.runtime.disconnect();
  return { resources, result };
}
