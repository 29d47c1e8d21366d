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

export interface TracingArgs {
  release: string;
  namespace: pulumi.Input<string>;
  image: pulumi.Input<string>;
}

const PORT = 6006;
const UID = 65_532;
/** The account that Phoenix makes at its first start. */
export const TRACING_EMAIL = "admin@localhost";

/** Phoenix: the tracing UI, with sign-in, and the OTLP endpoint that all programs export to. */
export class Tracing extends pulumi.ComponentResource {
  readonly url: pulumi.Output<string>;
  readonly password: pulumi.Output<string>;
  /** `OTEL_EXPORTER_OTLP_HEADERS` of the platform's own programs. Opens everything: not for agents. */
  readonly otlpHeaders: pulumi.Output<string>;
  readonly token: pulumi.Output<string>;

  constructor(name: string, args: TracingArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:tracing:Tracing", name, {}, opts);
    const child = { parent: this };
    const metadata = objectMetadata(args, "phoenix");
    const secretValue = (what: string, length: number) =>
      generatedSecret(`${name}-${what}`, length, child, { minNumeric: 1, minLower: 1 });
    this.password = secretValue("password", 20);
    this.token = secretValue("token", 40);
    const secret = new k8s.core.v1.Secret(
      `${name}-credentials`,
      {
        metadata: objectMetadata(args, "phoenix", "credentials"),
        stringData: {
          PHOENIX_SECRET: secretValue("signing-key", 40),
          PHOENIX_ADMIN_SECRET: this.token,
          PHOENIX_DEFAULT_ADMIN_INITIAL_PASSWORD: this.password,
        },
      },
      child,
    );
    const claim = new k8s.core.v1.PersistentVolumeClaim(
      `${name}-data`,
      {
        metadata: { ...metadata, annotations: { "pulumi.com/skipAwait": "true" } },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "2Gi" } } },
      },
      child,
    );
    const service = new k8s.core.v1.Service(
      `${name}-service`,
      {
        metadata: { ...metadata, annotations: READY_TIMEOUT },
        spec: {
          selector: selector(args.release, "phoenix"),
          ports: [{ name: "http", port: PORT, targetPort: "http" }],
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
          // Its data has one writer.
          strategy: { type: "Recreate" },
          selector: { matchLabels: selector(args.release, "phoenix") },
          template: phoenixPod(args, secret.metadata.name, claim.metadata.name),
        },
      },
      child,
    );
    disruptionBudget(`${name}-budget`, args, "phoenix", child);
    this.url = pulumi.interpolate`http://${service.metadata.name}.${args.namespace}.svc:${PORT}`;
    this.otlpHeaders = pulumi.secret(pulumi.interpolate`authorization=Bearer ${this.token}`);
    this.registerOutputs({ url: this.url });
  }
}

/** Phoenix' pod. It asks nobody outside for anything. */
export function phoenixPod(
  args: TracingArgs,
  secretName: pulumi.Input<string>,
  claimName: pulumi.Input<string>,
): k8s.types.input.core.v1.PodTemplateSpec {
  const probe = (path: string) => ({ httpGet: { path, port: "http" }, timeoutSeconds: 5 });
  return {
    metadata: { labels: labels(args.release, "phoenix") },
    spec: {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: podSecurity(UID),
      containers: [
        {
          name: "phoenix",
          image: args.image,
          imagePullPolicy: "IfNotPresent",
          env: [
            { name: "PHOENIX_WORKING_DIR", value: "/data" },
            { name: "PHOENIX_ENABLE_AUTH", value: "true" },
            { name: "PHOENIX_TELEMETRY_ENABLED", value: "false" },
            { name: "PHOENIX_ALLOW_EXTERNAL_RESOURCES", value: "false" },
            { name: "PHOENIX_DISABLE_AGENT_ASSISTANT", value: "true" },
            { name: "PHOENIX_DEFAULT_RETENTION_POLICY_DAYS", value: "7" },
          ],
          envFrom: [{ secretRef: { name: secretName } }],
          ports: [{ name: "http", containerPort: PORT }],
          resources: {
            requests: { cpu: "50m", memory: "448Mi", "ephemeral-storage": "64Mi" },
            limits: { cpu: "1", memory: "1Gi", "ephemeral-storage": "512Mi" },
          },
          securityContext: CONTAINER_SECURITY,
          startupProbe: { ...probe("/healthz"), periodSeconds: 2, failureThreshold: 90 },
          readinessProbe: { ...probe("/readyz"), periodSeconds: 10 },
          livenessProbe: { ...probe("/healthz"), periodSeconds: 30, failureThreshold: 4 },
          volumeMounts: [
            { name: "data", mountPath: "/data" },
            { name: "tmp", mountPath: "/tmp" },
          ],
        },
      ],
      volumes: [
        { name: "data", persistentVolumeClaim: { claimName } },
        { name: "tmp", emptyDir: { sizeLimit: "256Mi" } },
      ],
    },
  };
}
