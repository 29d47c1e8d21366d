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

export interface DatabaseArgs {
  release: string;
  namespace: pulumi.Input<string>;
  image: pulumi.Input<string>;
}

/** The one database of a release; agents get schemas of their own in it. */
export const DATABASE_NAME = "platform";
const PORT = 5432;
const UID = 999;

/** Roles that are there from the first start, by the key of their password in the Secret. */
const ROLES = { model_gateway: "MODEL_GATEWAY_PASSWORD", provisioner: "PROVISIONER_PASSWORD" };

/**
 * PostgreSQL for the platform and its agents, one replica on a persistent volume. The first start
 * makes the platform's own roles; the agents' are the provisioner's.
 */
export class Database extends pulumi.ComponentResource {
  readonly host: string;
  readonly modelGatewayUrl: pulumi.Output<string>;
  readonly provisionerUrl: pulumi.Output<string>;

  constructor(name: string, args: DatabaseArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:database:Database", name, {}, opts);
    const child = { parent: this };
    const metadata = objectMetadata(args, "postgres");
    const password = (role: string) => generatedSecret(`${name}-${role}-password`, 32, child);
    const [superuser, modelGateway, provisioner] = [
      password("superuser"),
      password("model-gateway"),
      password("provisioner"),
    ];
    const secret = new k8s.core.v1.Secret(
      `${name}-credentials`,
      {
        metadata: objectMetadata(args, "postgres", "credentials"),
        stringData: {
          POSTGRES_PASSWORD: superuser,
          [ROLES.model_gateway]: modelGateway,
          [ROLES.provisioner]: provisioner,
        },
      },
      child,
    );
    const scripts = new k8s.core.v1.ConfigMap(
      `${name}-first-start`,
      {
        metadata: objectMetadata(args, "postgres", "first-start"),
        data: { "10-roles.sh": FIRST_START },
      },
      child,
    );
    const service = new k8s.core.v1.Service(
      `${name}-service`,
      {
        metadata: { ...metadata, annotations: READY_TIMEOUT },
        spec: {
          selector: selector(args.release, "postgres"),
          ports: [{ name: "postgres", port: PORT, targetPort: "postgres" }],
        },
      },
      child,
    );
    new k8s.apps.v1.StatefulSet(
      `${name}-server`,
      {
        metadata: { ...metadata, annotations: READY_TIMEOUT },
        spec: {
          serviceName: metadata.name,
          replicas: 1,
          selector: { matchLabels: selector(args.release, "postgres") },
          template: postgresPod(args, secret.metadata.name, scripts.metadata.name),
          volumeClaimTemplates: [
            {
              metadata: { name: "data" },
              spec: {
                accessModes: ["ReadWriteOnce"],
                resources: { requests: { storage: "5Gi" } },
              },
            },
          ],
        },
      },
      child,
    );
    disruptionBudget(`${name}-budget`, args, "postgres", child);
    this.host = metadata.name;
    const url = (role: string, secretPassword: pulumi.Output<string>) =>
      pulumi.secret(
        pulumi.interpolate`postgres://${role}:${secretPassword}@${service.metadata.name}.${args.namespace}.svc:${PORT}/${DATABASE_NAME}`,
      );
    this.modelGatewayUrl = url("model_gateway", modelGateway);
    this.provisionerUrl = url("provisioner", provisioner);
    this.registerOutputs({ host: this.host });
  }
}

/** PostgreSQL's pod. Its data survive the pod; everything else of it may be written nowhere. */
export function postgresPod(
  args: DatabaseArgs,
  secretName: pulumi.Input<string>,
  scriptsName: pulumi.Input<string>,
): k8s.types.input.core.v1.PodTemplateSpec {
  const ready = { exec: { command: ["pg_isready", "-U", "postgres", "-d", DATABASE_NAME] } };
  return {
    metadata: { labels: labels(args.release, "postgres") },
    spec: {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: podSecurity(UID),
      // A fast shutdown: the image's stop signal is SIGINT.
      terminationGracePeriodSeconds: 60,
      containers: [
        {
          name: "postgres",
          image: args.image,
          imagePullPolicy: "IfNotPresent",
          args: [
            "-c",
            "shared_buffers=128MB",
            "-c",
            "max_connections=200",
            "-c",
            "jit=off",
            "-c",
            "password_encryption=scram-sha-256",
          ],
          env: [
            { name: "POSTGRES_DB", value: DATABASE_NAME },
            { name: "POSTGRES_INITDB_ARGS", value: "--auth-host=scram-sha-256" },
            { name: "PGDATA", value: "/var/lib/postgresql/data/pgdata" },
          ],
          envFrom: [{ secretRef: { name: secretName } }],
          ports: [{ name: "postgres", containerPort: PORT }],
          resources: {
            requests: { cpu: "50m", memory: "128Mi", "ephemeral-storage": "16Mi" },
            limits: { cpu: "1", memory: "512Mi", "ephemeral-storage": "256Mi" },
          },
          securityContext: CONTAINER_SECURITY,
          startupProbe: { ...ready, periodSeconds: 1, failureThreshold: 120 },
          readinessProbe: { ...ready, periodSeconds: 5 },
          livenessProbe: { ...ready, periodSeconds: 20, failureThreshold: 6, timeoutSeconds: 5 },
          volumeMounts: [
            { name: "data", mountPath: "/var/lib/postgresql/data" },
            { name: "run", mountPath: "/var/run/postgresql" },
            { name: "tmp", mountPath: "/tmp" },
            { name: "first-start", mountPath: "/docker-entrypoint-initdb.d", readOnly: true },
          ],
        },
      ],
      volumes: [
        { name: "run", emptyDir: { sizeLimit: "16Mi" } },
        { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
        { name: "first-start", configMap: { name: scriptsName } },
      ],
    },
  };
}

/**
 * Rights of the platform's own roles. `psql` fills in the passwords, which come from the
 * environment. The model gateway's migrations let `token_issuer` at the table of tokens.
 */
export const FIRST_START_SQL = `REVOKE ALL ON DATABASE ${DATABASE_NAME} FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;

CREATE ROLE model_gateway LOGIN PASSWORD :'model_gateway';
GRANT CONNECT ON DATABASE ${DATABASE_NAME} TO model_gateway;
CREATE SCHEMA model_gateway AUTHORIZATION model_gateway;
ALTER ROLE model_gateway SET search_path = model_gateway;

-- Makes the agents' roles and schemas.
CREATE ROLE provisioner LOGIN CREATEROLE PASSWORD :'provisioner';
GRANT CONNECT, CREATE ON DATABASE ${DATABASE_NAME} TO provisioner WITH GRANT OPTION;

-- Enters the agents' tokens, and sees nothing else of the model gateway's.
CREATE ROLE token_issuer NOLOGIN;
GRANT USAGE ON SCHEMA model_gateway TO token_issuer;
GRANT token_issuer TO provisioner;
`;

/** A login that made something in one of these could not be dropped: it is revoked from its own. */
const OTHER_DATABASES_SQL = `
REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;
`;

/** Runs once, on an empty volume. Passwords come from the environment, never from this text. */
const FIRST_START = `set -eu
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \\
  -v model_gateway="$MODEL_GATEWAY_PASSWORD" -v provisioner="$PROVISIONER_PASSWORD" <<'SQL'
${FIRST_START_SQL}${OTHER_DATABASES_SQL}SQL
`;
