import type * as k8s from "@pulumi/kubernetes";
import type * as pulumi from "@pulumi/pulumi";
import { type TrustedCertificates, trusting } from "./trusted-certificates.ts";

type Input<T> = pulumi.Input<T>;

/** The labels of everything that belongs to a platform release. */
export function labels(release: string, component: string): Record<string, string> {
  return {
    "app.kubernetes.io/name": component,
    "app.kubernetes.io/instance": release,
    "app.kubernetes.io/part-of": "platform",
    "app.kubernetes.io/managed-by": "pulumi",
  };
}

/** The labels that a selector may use: they never change over a release's life. */
export function selector(release: string, component: string): Record<string, string> {
  return { "app.kubernetes.io/name": component, "app.kubernetes.io/instance": release };
}

export interface ObjectMetadata {
  name: string;
  namespace: Input<string>;
  labels: Record<string, string>;
}

/** Name, place and labels of a component's object: `<release>-<component>`, with a suffix if given. */
export function objectMetadata(
  { release, namespace }: { release: string; namespace: Input<string> },
  component: string,
  suffix?: string,
): ObjectMetadata {
  const name = [release, component, ...(suffix === undefined ? [] : [suffix])].join("-");
  return { name, namespace, labels: labels(release, component) };
}

/**
 * How long an update waits until a workload's pods are ready, or a Service has one; then it fails and
 * names the reason that the pods give (CrashLoopBackOff, ImagePullBackOff…). Pulumi's own bound is
 * 10 min. The slowest start,
 * PostgreSQL's first, is given 2 min by its probe, and a node of two CPUs starts all pods at once.
 */
export const READY_TIMEOUT = { "pulumi.com/timeoutSeconds": "300" };

/** What Pod Security `restricted` wants of a pod. */
export function podSecurity(uid: number): k8s.types.input.core.v1.PodSecurityContext {
  return {
    runAsNonRoot: true,
    runAsUser: uid,
    runAsGroup: uid,
    fsGroup: uid,
    seccompProfile: { type: "RuntimeDefault" },
  };
}

/** What Pod Security `restricted` wants of a container, and a root file system that stays as it is. */
export const CONTAINER_SECURITY: k8s.types.input.core.v1.SecurityContext = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

export interface ProgramPodArgs {
  release: string;
  component: string;
  image: Input<string>;
  port: number;
  /** Plain environment. */
  env: Record<string, Input<string>>;
  /** A Secret whose keys become environment variables. */
  envSecret: Input<string>;
  /** Changes when the Secret does, so that pods roll. */
  envChecksum: Input<string>;
  trustedCertificates: TrustedCertificates | undefined;
  serviceAccountName?: Input<string>;
  requests: { cpu: string; memory: string };
  limits: { cpu: string; memory: string };
}

/** The pod of one of our own Node programs. */
export function programPod(args: ProgramPodArgs): k8s.types.input.core.v1.PodTemplateSpec {
  const trust = args.trustedCertificates && trusting(args.trustedCertificates);
  const probe = (path: string, periodSeconds: number) => ({
    httpGet: { path, port: "http" },
    periodSeconds,
    timeoutSeconds: 3,
  });
  return {
    metadata: {
      labels: labels(args.release, args.component),
      annotations: { "platform.dev/environment": args.envChecksum, ...trust?.annotations },
    },
    spec: {
      automountServiceAccountToken: args.serviceAccountName !== undefined,
      ...(args.serviceAccountName !== undefined && { serviceAccountName: args.serviceAccountName }),
      enableServiceLinks: false,
      securityContext: podSecurity(1000),
      terminationGracePeriodSeconds: 35,
      containers: [
        {
          name: args.component,
          image: args.image,
          imagePullPolicy: "IfNotPresent",
          env: [
            { name: "PORT", value: String(args.port) },
            ...Object.entries(args.env).map(([name, value]) => ({ name, value })),
            ...(trust?.env ?? []),
          ],
          envFrom: [{ secretRef: { name: args.envSecret } }],
          ports: [{ name: "http", containerPort: args.port }],
          resources: {
            requests: { ...args.requests, "ephemeral-storage": "16Mi" },
            limits: { ...args.limits, "ephemeral-storage": "256Mi" },
          },
          securityContext: CONTAINER_SECURITY,
          startupProbe: { ...probe("/ready", 1), failureThreshold: 90 },
          readinessProbe: { ...probe("/ready", 5), failureThreshold: 2 },
          livenessProbe: { ...probe("/live", 10), failureThreshold: 3 },
          // Until no one sends new calls here any more: a program that drains takes none.
          lifecycle: { preStop: { sleep: { seconds: 3 } } },
          volumeMounts: [{ name: "tmp", mountPath: "/tmp" }, ...(trust?.volumeMounts ?? [])],
        },
      ],
      volumes: [{ name: "tmp", emptyDir: { sizeLimit: "64Mi" } }, ...(trust?.volumes ?? [])],
      topologySpreadConstraints: [
        {
          maxSkew: 1,
          topologyKey: "kubernetes.io/hostname",
          whenUnsatisfiable: "ScheduleAnyway",
          labelSelector: { matchLabels: selector(args.release, args.component) },
        },
      ],
    },
  };
}
