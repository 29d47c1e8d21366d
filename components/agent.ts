import { join } from "node:path";
import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import { releaseNameOf } from "./agent-names.ts";
import { READY_TIMEOUT } from "./workload.ts";

export interface AgentArgs {
  graphId: string;
  /** Reference of its image: `repository:tag` or `repository@sha256:…`. */
  image: pulumi.Input<string>;
  namespace: pulumi.Input<string>;
  platform: { release: string; namespace: pulumi.Input<string>; agentsHost: string };
  /** Undefined: the stack was asked for `sandbox: none`. */
  runtimeClassName: pulumi.Input<string> | undefined;
  /** In PEM; trusted beside those of public CAs. */
  trustedCertificates: string | undefined;
  chartDirectory: string;
}

/** One agent: the chart `platform-agent`, which is the one description of its objects. */
export class Agent extends pulumi.ComponentResource {
  constructor(name: string, args: AgentArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:agent:Agent", name, {}, opts);
    const releaseName = releaseNameOf(args.graphId);
    new k8s.helm.v4.Chart(
      `${name}-chart`,
      {
        name: releaseName,
        namespace: args.namespace,
        chart: join(args.chartDirectory, "platform-agent"),
        values: {
          graphId: args.graphId,
          image: pulumi.output(args.image).apply(imageValues),
          sharedRoute: { host: args.platform.agentsHost },
          platform: { releaseName: args.platform.release, namespace: args.platform.namespace },
          deploymentAnnotations: {
            ...READY_TIMEOUT,
            // No pod without its policy, neither before nor after: one that is told to stop while the
            // policy is gone already can't reach its database any more to hand its runs back.
            "config.kubernetes.io/depends-on": pulumi.interpolate`networking.k8s.io/namespaces/${args.namespace}/NetworkPolicy/${releaseName}`,
          },
          serviceAnnotations: READY_TIMEOUT,
          ...(args.trustedCertificates !== undefined && {
            trustedCertificates: args.trustedCertificates,
          }),
          ...(args.runtimeClassName === undefined
            ? { runtimeClassName: "", sandbox: "none" }
            : { runtimeClassName: args.runtimeClassName }),
        },
      },
      { parent: this },
    );
    this.registerOutputs({});
  }
}

/** An image reference as the chart's values have it. */
export function imageValues(reference: string): Record<string, string> {
  const at = reference.indexOf("@");
  if (at > 0)
    return { repository: reference.slice(0, at), digest: reference.slice(at + 1), tag: "" };
  const colon = reference.lastIndexOf(":");
  return { repository: reference.slice(0, colon), tag: reference.slice(colon + 1) };
}
