import * as pulumi from "@pulumi/pulumi";
import { provisionerRules } from "../runtime/provisioner/rbac.ts";
import { Program } from "./program.ts";
import type { TrustedCertificates } from "./trusted-certificates.ts";

export interface ProvisionerArgs {
  release: string;
  namespace: pulumi.Input<string>;
  agentsNamespace: pulumi.Input<string>;
  image: pulumi.Input<string>;
  trustedCertificates: TrustedCertificates | undefined;
  databaseAdminUrl: pulumi.Input<string>;
  cacheAdminUrl: pulumi.Input<string>;
  assertionPublicKey: pulumi.Input<string>;
  modelGatewayUrl: pulumi.Input<string>;
  defaultModel: string;
}

/** Gives each agent credentials of its own; the only holder of the admin ones. */
export class Provisioner extends pulumi.ComponentResource {
  constructor(name: string, args: ProvisionerArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:provisioner:Provisioner", name, {}, opts);
    new Program(
      `${name}-program`,
      {
        release: args.release,
        component: "provisioner",
        namespace: args.namespace,
        image: args.image,
        trustedCertificates: args.trustedCertificates,
        replicas: 1,
        port: 8000,
        env: {
          AGENT_NAMESPACES: args.agentsNamespace,
          ASSERTION_PUBLIC_KEY: args.assertionPublicKey,
          OPENAI_BASE_URL: pulumi.interpolate`${args.modelGatewayUrl}/v1`,
          DEFAULT_LLM_MODEL: args.defaultModel,
          // Agents' spans go through the model gateway, which knows their tokens.
          OTEL_EXPORTER_OTLP_ENDPOINT: pulumi.interpolate`${args.modelGatewayUrl}/otlp`,
        },
        secretEnv: {
          DATABASE_ADMIN_URL: args.databaseAdminUrl,
          REDIS_ADMIN_URL: args.cacheAdminUrl,
        },
        access: { rules: provisionerRules(), namespaces: [args.agentsNamespace] },
        requests: { cpu: "20m", memory: "128Mi" },
        limits: { cpu: "500m", memory: "384Mi" },
      },
      { parent: this },
    );
    this.registerOutputs({});
  }
}
