import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import type { Artifact } from "./artifacts.ts";
import type { KindCluster } from "./kind-cluster.ts";
import { NodeSandbox } from "./node-sandbox.ts";
import { CONTAINER_SECURITY, labels, podSecurity } from "./workload.ts";

export interface SandboxRuntimeArgs {
  release: string;
  /** RuntimeClass of the agents' pods. */
  runtimeClassName: string;
  /** Where gVisor has to be put onto the node; on an existing cluster it is there already. */
  install?: { cluster: KindCluster; archive: Artifact; cacheDirectory: string };
  namespace: pulumi.Input<string>;
  /** An image of ours with a shell and dmesg. */
  probeImage: pulumi.Input<string>;
}

/** What a gVisor pod costs beside its containers, measured: the sentry's memory and its start. */
const OVERHEAD = { memory: "64Mi", cpu: "20m" };

/**
 * The sandbox of the agents, proven: the stack fails unless a pod of this runtime class sees gVisor's
 * kernel instead of the node's.
 */
export class SandboxRuntime extends pulumi.ComponentResource {
  readonly runtimeClassName: pulumi.Output<string>;
  /** Agents must not start before it. */
  readonly proof: k8s.batch.v1.Job;

  constructor(name: string, args: SandboxRuntimeArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:sandbox:SandboxRuntime", name, {}, opts);
    const { install } = args;
    let runtimeClass: k8s.node.v1.RuntimeClass | undefined;
    if (install !== undefined) {
      const node = new NodeSandbox(`${name}-node`, install, { parent: this });
      runtimeClass = new k8s.node.v1.RuntimeClass(
        `${name}-class`,
        {
          metadata: { name: args.runtimeClassName, labels: labels(args.release, "sandbox") },
          handler: "runsc",
          overhead: { podFixed: OVERHEAD },
        },
        { parent: this, dependsOn: node, deletedWith: install.cluster },
      );
    }
    this.proof = new k8s.batch.v1.Job(`${name}-proof`, proofJob(args), {
      parent: this,
      ...(runtimeClass && { dependsOn: runtimeClass }),
      ...(install && { deletedWith: install.cluster }),
    });
    this.runtimeClassName = this.proof.status.apply(() => args.runtimeClassName);
    this.registerOutputs({ runtimeClassName: this.runtimeClassName });
  }
}

/** A Job that fails, and says why, unless it runs on gVisor's kernel. */
export function proofJob(
  args: Pick<SandboxRuntimeArgs, "release" | "runtimeClassName" | "namespace" | "probeImage">,
): k8s.types.input.batch.v1.Job & { metadata: { namespace: pulumi.Input<string> } } {
  const check =
    'if dmesg | grep -q "Starting gVisor"; then echo "This pod runs on gVisor."; else echo "This pod does NOT run on gVisor: $(uname -a)"; exit 1; fi';
  return {
    metadata: {
      namespace: args.namespace,
      labels: labels(args.release, "sandbox-proof"),
      annotations: { "pulumi.com/timeoutSeconds": "120" },
    },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: 100,
      template: {
        metadata: { labels: labels(args.release, "sandbox-proof") },
        spec: {
          runtimeClassName: args.runtimeClassName,
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          securityContext: podSecurity(1000),
          containers: [
            {
              name: "proof",
              image: args.probeImage,
              imagePullPolicy: "IfNotPresent",
              command: ["sh", "-c", check],
              resources: {
                requests: { cpu: "10m", memory: "16Mi", "ephemeral-storage": "4Mi" },
                limits: { cpu: "500m", memory: "64Mi", "ephemeral-storage": "64Mi" },
              },
              securityContext: CONTAINER_SECURITY,
            },
          ],
        },
      },
    },
  };
}
