import { createHash } from "node:crypto";
import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import type { AccessRule } from "../runtime/common/kubernetes/access-rule.ts";
import { disruptionBudget } from "./disruption-budget.ts";
import type { TrustedCertificates } from "./trusted-certificates.ts";
import {
  type ObjectMetadata,
  objectMetadata,
  programPod,
  READY_TIMEOUT,
  selector,
} from "./workload.ts";

export interface ProgramArgs {
  release: string;
  /** e.g. `gateway`; objects are `<release>-<component>`. */
  component: string;
  namespace: pulumi.Input<string>;
  image: pulumi.Input<string>;
  replicas: number;
  /** More replicas under load; undefined: always as many. */
  autoscaling?: Autoscaling | undefined;
  port: number;
  env: Record<string, pulumi.Input<string>>;
  secretEnv: Record<string, pulumi.Input<string>>;
  /** Beside those of public CAs. */
  trustedCertificates: TrustedCertificates | undefined;
  /** What it may do at the API server, everywhere or in some namespaces; without it, no token. */
  access?: { rules: AccessRule[]; namespaces?: pulumi.Input<string>[] };
  /** A node port for the gateway of a local cluster. */
  nodePort?: number;
  requests: { cpu: string; memory: string };
  limits: { cpu: string; memory: string };
}

/** By which a program gets more replicas than its `replicas`. */
export interface Autoscaling {
  maxReplicas: number;
  targetCPUUtilizationPercentage: number;
}

/** One of our own stateless programs: Deployment, Service, Secret, disruption budget, rights. */
export class Program extends pulumi.ComponentResource {
  readonly url: pulumi.Output<string>;
  readonly deployment: k8s.apps.v1.Deployment;

  constructor(name: string, args: ProgramArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:program:Program", name, {}, opts);
    const child = { parent: this };
    const metadata = objectMetadata(args, args.component);
    const matchLabels = selector(args.release, args.component);
    const secret = new k8s.core.v1.Secret(
      `${name}-environment`,
      {
        metadata: objectMetadata(args, args.component, "environment"),
        stringData: args.secretEnv,
      },
      child,
    );
    const account = args.access && serviceAccount(name, metadata, args.access, child);
    this.deployment = new k8s.apps.v1.Deployment(
      `${name}-deployment`,
      {
        metadata: { ...metadata, annotations: READY_TIMEOUT },
        spec: {
          replicas: args.replicas,
          selector: { matchLabels },
          strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
          template: programPod({
            release: args.release,
            component: args.component,
            image: args.image,
            port: args.port,
            env: args.env,
            envSecret: secret.metadata.name,
            envChecksum: checksum(args.secretEnv),
            trustedCertificates: args.trustedCertificates,
            requests: args.requests,
            limits: args.limits,
            ...(account && { serviceAccountName: account.metadata.name }),
          }),
        },
      },
      // What the autoscaler has chosen is not for an update to take back.
      args.autoscaling === undefined ? child : { ...child, ignoreChanges: ["spec.replicas"] },
    );
    const service = new k8s.core.v1.Service(
      `${name}-service`,
      {
        metadata: { ...metadata, annotations: READY_TIMEOUT },
        spec: {
          type: args.nodePort === undefined ? "ClusterIP" : "NodePort",
          selector: matchLabels,
          ports: [
            {
              name: "http",
              port: args.port,
              targetPort: "http",
              ...(args.nodePort !== undefined && { nodePort: args.nodePort }),
            },
          ],
        },
      },
      child,
    );
    disruptionBudget(`${name}-budget`, args, args.component, child);
    if (args.autoscaling !== undefined) autoscaler(name, metadata, args, args.autoscaling, child);
    this.url = pulumi.interpolate`http://${service.metadata.name}.${args.namespace}.svc:${args.port}`;
    this.registerOutputs({ url: this.url });
  }
}

function autoscaler(
  name: string,
  metadata: ObjectMetadata,
  { replicas }: ProgramArgs,
  { maxReplicas, targetCPUUtilizationPercentage }: Autoscaling,
  child: pulumi.CustomResourceOptions,
): void {
  new k8s.autoscaling.v2.HorizontalPodAutoscaler(
    `${name}-autoscaler`,
    {
      metadata,
      spec: {
        scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: metadata.name },
        minReplicas: replicas,
        maxReplicas,
        metrics: [
          {
            type: "Resource",
            resource: {
              name: "cpu",
              target: { type: "Utilization", averageUtilization: targetCPUUtilizationPercentage },
            },
          },
        ],
      },
    },
    child,
  );
}

function serviceAccount(
  name: string,
  metadata: ObjectMetadata,
  { rules, namespaces }: NonNullable<ProgramArgs["access"]>,
  child: pulumi.CustomResourceOptions,
): k8s.core.v1.ServiceAccount {
  const account = new k8s.core.v1.ServiceAccount(
    `${name}-account`,
    { metadata, automountServiceAccountToken: false },
    child,
  );
  const subjects = [
    { kind: "ServiceAccount", name: account.metadata.name, namespace: account.metadata.namespace },
  ];
  const { namespace: _, ...everywhere } = metadata;
  if (namespaces === undefined) {
    const role = new k8s.rbac.v1.ClusterRole(
      `${name}-role`,
      { metadata: everywhere, rules },
      child,
    );
    new k8s.rbac.v1.ClusterRoleBinding(
      `${name}-role-binding`,
      { metadata: everywhere, roleRef: roleRef("ClusterRole", role.metadata.name), subjects },
      child,
    );
  }
  namespaces?.forEach((namespace, index) => {
    const inNamespace = { ...everywhere, namespace };
    const role = new k8s.rbac.v1.Role(
      `${name}-role-${index}`,
      { metadata: inNamespace, rules },
      child,
    );
    new k8s.rbac.v1.RoleBinding(
      `${name}-role-binding-${index}`,
      { metadata: inNamespace, roleRef: roleRef("Role", role.metadata.name), subjects },
      child,
    );
  });
  return account;
}

function roleRef(kind: "Role" | "ClusterRole", name: pulumi.Input<string>) {
  return { apiGroup: "rbac.authorization.k8s.io", kind, name };
}

/** Changes when a value does and tells nothing of it. */
function checksum(values: Record<string, pulumi.Input<string>>): pulumi.Output<string> {
  const text = pulumi.output(values).apply((known) =>
    // In a shell's environment the same variables may stand in another order.
    JSON.stringify(Object.entries(known).sort(([a], [b]) => (a < b ? -1 : 1))),
  );
  return pulumi.unsecret(
    text.apply((known) => createHash("sha256").update(known).digest("hex").slice(0, 16)),
  );
}
