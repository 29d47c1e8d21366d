import type * as pulumi from "@pulumi/pulumi";
import { SandboxRuntime } from "./sandbox-runtime.ts";
import type { StackConfiguration } from "./stack-configuration.ts";
import { artifact, type TargetCluster } from "./target-cluster.ts";

export interface AgentSandboxArgs {
  release: string;
  namespace: pulumi.Input<string>;
  probeImage: pulumi.Input<string>;
  /** Where downloaded archives are kept. */
  cacheDirectory: string;
}

/** The sandbox that a stack asks for, put onto a cluster of our own; undefined for `sandbox: none`. */
export function agentSandbox(
  configuration: StackConfiguration,
  cluster: TargetCluster,
  { cacheDirectory, ...args }: AgentSandboxArgs,
): SandboxRuntime | undefined {
  if (configuration.sandbox === "none") return undefined;
  const { runtimeClassName } = configuration;
  const install = cluster.kind && {
    cluster: cluster.kind,
    archive: artifact(configuration, "gvisor"),
    cacheDirectory,
  };
  return new SandboxRuntime(
    "sandbox",
    { ...args, runtimeClassName, ...(install && { install }) },
    cluster.component(),
  );
}
