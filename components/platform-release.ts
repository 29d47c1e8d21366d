import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import { DEV_TENANT, DEV_TOKEN } from "../runtime/common/dev-token.ts";
import { assertionKeys } from "./assertion-keys.ts";
import { Cache } from "./cache.ts";
import { Database } from "./database.ts";
import { Gateway } from "./gateway.ts";
import { ModelGateway } from "./model-gateway.ts";
import { NetworkPolicies } from "./network-policies.ts";
import { platformWays } from "./platform-ways.ts";
import { Provisioner } from "./provisioner.ts";
import type { StackConfiguration } from "./stack-configuration.ts";
import { Tracing } from "./tracing.ts";
import { CERTIFICATES_FILE, checksumOf, type TrustedCertificates } from "./trusted-certificates.ts";
import { objectMetadata } from "./workload.ts";

export interface PlatformReleaseArgs {
  /** Prefix of all its objects' names. */
  release: string;
  namespace: pulumi.Input<string>;
  agentsNamespace: pulumi.Input<string>;
  /** The reference of an image by its name, ours or a third party's. */
  image(name: string): pulumi.Input<string>;
  configuration: StackConfiguration;
  defaultModel: string;
  /** The node port that leads to the gateway, on a cluster of our own. */
  nodePort?: number;
  /** The Gateway API's kinds have to be there before the gateway's objects. */
  /** What brings Gateway API; undefined where the cluster has it. */
  gatewayApi: pulumi.Resource | undefined;
}

/** Everything of the platform in a cluster but the agents. */
export class PlatformRelease extends pulumi.ComponentResource {
  readonly tracingPassword: pulumi.Output<string>;
  readonly gateway: Gateway;
  readonly provisioner: Provisioner;

  constructor(name: string, args: PlatformReleaseArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:release:PlatformRelease", name, {}, opts);
    const { release, namespace, configuration } = args;
    const child = { parent: this };
    const place = { release, namespace };
    new NetworkPolicies(
      `${name}-network`,
      {
        ...place,
        agentsNamespace: args.agentsNamespace,
        ways: platformWays(configuration).ways,
      },
      child,
    );
    const database =
      externalDatabase(configuration) ??
      new Database(`${name}-postgres`, { ...place, image: args.image("postgres") }, child);
    const cache =
      externalCache(configuration) ??
      new Cache(`${name}-valkey`, { ...place, image: args.image("valkey") }, child);
    const tracing = new Tracing(
      `${name}-phoenix`,
      { ...place, image: args.image("phoenix") },
      child,
    );
    const trustedCertificates = certificateMap(name, place, configuration, child);
    const keys = assertionKeys(`${name}-assertion-key`, this);
    const devToken = configuration.devTokens ? { token: DEV_TOKEN, tenant: DEV_TENANT } : undefined;
    const modelGateway = new ModelGateway(
      `${name}-model-gateway`,
      {
        ...place,
        image: args.image("model-gateway"),
        trustedCertificates,
        replicas: configuration.replicas,
        autoscaling: configuration.autoscaling,
        databaseUrl: database.modelGatewayUrl,
        assertionPublicKey: keys.publicKey,
        providers: configuration.providers,
        demo: configuration.demo,
        defaultModel: args.defaultModel,
        tracing,
        devToken,
      },
      child,
    );
    this.gateway = new Gateway(
      `${name}-gateway`,
      {
        ...place,
        image: args.image("gateway"),
        trustedCertificates,
        replicas: configuration.replicas,
        autoscaling: configuration.autoscaling,
        hosts: configuration.hosts,
        corsOrigins: configuration.corsOrigins,
        modelGatewayUrl: modelGateway.url,
        assertionPrivateKey: keys.privateKey,
        tracing,
        devToken,
        oidc: configuration.oidc,
        nodePort: args.nodePort,
      },
      { ...child, ...(args.gatewayApi && { dependsOn: args.gatewayApi }) },
    );
    this.provisioner = new Provisioner(
      `${name}-provisioner`,
      {
        ...place,
        agentsNamespace: args.agentsNamespace,
        image: args.image("provisioner"),
        trustedCertificates,
        databaseAdminUrl: database.provisionerUrl,
        cacheAdminUrl: cache.adminUrl,
        assertionPublicKey: keys.publicKey,
        modelGatewayUrl: modelGateway.url,
        defaultModel: args.defaultModel,
      },
      { ...child, dependsOn: modelGateway },
    );
    this.tracingPassword = tracing.password;
    this.registerOutputs({ tracingPassword: this.tracingPassword });
  }
}

/** The certificates of CAs that the stack names, for the programs to mount. */
function certificateMap(
  name: string,
  place: { release: string; namespace: pulumi.Input<string> },
  { trustedCertificates: pem }: StackConfiguration,
  child: pulumi.CustomResourceOptions,
): TrustedCertificates | undefined {
  if (pem === undefined) return undefined;
  const { metadata } = new k8s.core.v1.ConfigMap(
    `${name}-trusted-certificates`,
    {
      metadata: objectMetadata(place, "trusted-certificates"),
      data: { [CERTIFICATES_FILE]: pem },
    },
    child,
  );
  return { configMap: metadata.name, checksum: checksumOf(pem) };
}

/** A database that somebody else runs, with the roles of docs/external-database.md. */
function externalDatabase({ database }: StackConfiguration) {
  return (
    database && {
      modelGatewayUrl: pulumi.secret(database.modelGatewayUrl),
      provisionerUrl: pulumi.secret(database.url),
    }
  );
}

function externalCache({ cache }: StackConfiguration) {
  return cache && { adminUrl: pulumi.secret(cache.url) };
}

/** Namespaces of a release: ours, and the agents' under Pod Security `restricted`. */
export function restrictedNamespaceLabels(): Record<string, string> {
  return {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
    "pod-security.kubernetes.io/warn": "restricted",
  };
}
