import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import { disruptionBudget } from "./disruption-budget.ts";
import { generatedSecret } from "./generated-secret.ts";
import {
  CONTAINER_SECURITY,
  labels,
  objectMetadata,
  podSecurity,
  READY_TIMEOUT,
  selector,
} from "./workload.ts";

export interface CacheArgs {
  release: string;
  namespace: pulumi.Input<string>;
  image: pulumi.Input<string>;
}

const PORT = 6379;
const UID = 999;

/**
 * Valkey for wake-ups and event replay. Keeps nothing on disk: it may come back empty. The default
 * user is off; agents get users of their own by the provisioner.
 */
export class Cache extends pulumi.ComponentResource {
  readonly host: string;
  readonly adminUrl: pulumi.Output<string>;

  constructor(name: string, args: CacheArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:cache:Cache", name, {}, opts);
    const child = { parent: this };
    const metadata = objectMetadata(args, "valkey");
    const password = generatedSecret(`${name}-admin-password`, 32, child);
    const users = new k8s.core.v1.Secret(
      `${name}-users`,
      {
        metadata: objectMetadata(args, "valkey", "users"),
        stringData: {
          "users.acl": pulumi.interpolate`user default off\nuser admin on >${password} ~* &* +@all\n`,
        },
      },
      child,
    );
    const service = new k8s.core.v1.Service(
      `${name}-service`,
      {
        metadata: { ...metadata, annotations: READY_TIMEOUT },
        spec: {
          selector: selector(args.release, "valkey"),
          ports: [{ name: "valkey", port: PORT, targetPort: "valkey" }],
        },
      },
      child,
    );
    new k8s.apps.v1.Deployment(
      `${name}-server`,
      {
        metadata: { ...metadata, annotations: READY_TIMEOUT },
        spec: {
          replicas: 1,
          strategy: { type: "Recreate" },
          selector: { matchLabels: selector(args.release, "valkey") },
          template: valkeyPod(args, users.metadata.name),
        },
      },
      child,
    );
    disruptionBudget(`${name}-budget`, args, "valkey", child);
    this.host = metadata.name;
    this.adminUrl = pulumi.secret(
      pulumi.interpolate`redis://admin:${password}@${service.metadata.name}.${args.namespace}.svc:${PORT}`,
    );
    this.registerOutputs({ host: this.host });
  }
}

/** Valkey's pod: no disk, bounded memory, and old keys go first. */
export function valkeyPod(
  args: CacheArgs,
  usersSecret: pulumi.Input<string>,
): k8s.types.input.core.v1.PodTemplateSpec {
  const alive = { tcpSocket: { port: "valkey" } };
  return {
    metadata: { labels: labels(args.release, "valkey") },
    spec: {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: podSecurity(UID),
      containers: [
        {
          name: "valkey",
          image: args.image,
          imagePullPolicy: "IfNotPresent",
          args: [
            ...["valkey-server", "--save", "", "--appendonly", "no", "--dir", "/tmp"],
            ...["--aclfile", "/etc/valkey/users.acl"],
            ...["--maxmemory", "128mb", "--maxmemory-policy", "volatile-lru"],
          ],
          ports: [{ name: "valkey", containerPort: PORT }],
          resources: {
            requests: { cpu: "20m", memory: "32Mi", "ephemeral-storage": "16Mi" },
            limits: { cpu: "500m", memory: "192Mi", "ephemeral-storage": "256Mi" },
          },
          securityContext: CONTAINER_SECURITY,
          startupProbe: { ...alive, periodSeconds: 1, failureThreshold: 60 },
          readinessProbe: { ...alive, periodSeconds: 5 },
          livenessProbe: { ...alive, periodSeconds: 20, failureThreshold: 3 },
          volumeMounts: [
            { name: "users", mountPath: "/etc/valkey", readOnly: true },
            { name: "tmp", mountPath: "/tmp" },
          ],
        },
      ],
      volumes: [
        { name: "users", secret: { secretName: usersSecret } },
        { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
      ],
    },
  };
}
