import { createHash } from "node:crypto";
import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import { labels, programPod, selector } from "./workload.ts";

export interface ProgramArgs {
  release: string;
  /** e.g. `gateway`; objects are `<release>-<component>`. */
  component: string;
  namespace: pulumi.Input<string>;
  image: pulumi.Input<string>;
  replicas: number;
  port: number;
  env: Record<string, pulumi.Input<string>>;
  secretEnv: Record<string, pulumi.Input<string>>;
  /** What it may do at the API server; without rules it gets no token. */
  clusterRules?: k8s.types.input.rbac.v1.PolicyRule[];
  /** A node port for the gateway of a local cluster. */
  nodePort?: number;
  requests: { cpu: string; memory: string };
  limits: { cpu: string; memory: string };
}

/** One of our own stateless programs: Deployment, Service, Secret, disruption budget, rights. */
export class Program extends pulumi.ComponentResource {
  readonly url: pulumi.Output<string>;
  readonly deployment: k8s.apps.v1.Deployment;

  constructor(name: string, args: ProgramArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:program:Program", name, {}, opts);
    const child = { parent: this };
    const metadata = {
      name: `${args.release}-${args.component}`,
      namespace: args.namespace,
      labels: labels(args.release, args.component),
    };
    const matchLabels = selector(args.release, args.component);
    const secret = new k8s.core.v1.Secret(
      `${name}-environment`,
      {
        metadata: { ...metadata, name: `${metadata.name}-environment` },
        stringData: args.secretEnv,
      },
      child,
    );
    const account = args.clusterRules && serviceAccount(name, metadata, args.clusterRules, child);
    this.deployment = new k8s.apps.v1.Deployment(
      `${name}-deployment`,
      {
        metadata,
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
            requests: args.requests,
            limits: args.limits,
            ...(account && { serviceAccountName: account.metadata.name }),
          }),
        },
      },
      child,
    );
    const service = new k8s.core.v1.Service(
      `${name}-service`,
      {
        metadata,
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
    new k8s.policy.v1.PodDisruptionBudget(
      `${name}-budget`,
      // At most one away at a time: with one replica a drain still gets through.
      { metadata, spec: { maxUnavailable: 1, selector: { matchLabels } } },
      child,
    );
    this.url = pulumi.interpolate`http://${service.metadata.name}.${args.namespace}.svc:${args.port}`;
    this.registerOutputs({ url: this.url });
  }
}

function serviceAccount(
  name: string,
  metadata: k8s.types.input.meta.v1.ObjectMeta & { name: string },
  rules: k8s.types.input.rbac.v1.PolicyRule[],
  child: pulumi.CustomResourceOptions,
): k8s.core.v1.ServiceAccount {
  const account = new k8s.core.v1.ServiceAccount(
    `${name}-account`,
    { metadata, automountServiceAccountToken: false },
    child,
  );
  const { namespace: _, ...clusterWide } = metadata;
  const role = new k8s.rbac.v1.ClusterRole(`${name}-role`, { metadata: clusterWide, rules }, child);
  new k8s.rbac.v1.ClusterRoleBinding(
    `${name}-role-binding`,
    {
      metadata: clusterWide,
      roleRef: {
        apiGroup: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        name: role.metadata.name,
      },
      subjects: [
        {
          kind: "ServiceAccount",
          name: account.metadata.name,
          namespace: account.metadata.namespace,
        },
      ],
    },
    child,
  );
  return account;
}

/** Changes when a value does and tells nothing of it. */
function checksum(values: Record<string, pulumi.Input<string>>): pulumi.Output<string> {
  const text = pulumi.output(values).apply((known) => JSON.stringify(known));
  return pulumi.unsecret(
    text.apply((known) => createHash("sha256").update(known).digest("hex").slice(0, 16)),
  );
}
