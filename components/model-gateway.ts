import * as pulumi from "@pulumi/pulumi";
import { Program } from "./program.ts";
import type { StackConfiguration } from "./stack-configuration.ts";
import type { TrustedCertificates } from "./trusted-certificates.ts";

export interface ModelGatewayArgs {
  release: string;
  namespace: pulumi.Input<string>;
  image: pulumi.Input<string>;
  trustedCertificates: TrustedCertificates | undefined;
  replicas: number;
  autoscaling: StackConfiguration["autoscaling"];
  databaseUrl: pulumi.Input<string>;
  assertionPublicKey: pulumi.Input<string>;
  /** Credentials and base URLs, by their environment variables. They go here and nowhere else. */
  providers: Record<string, string>;
  demo: boolean;
  defaultModel: string;
  tracing: { url: pulumi.Input<string>; otlpHeaders: pulumi.Input<string> };
  devToken: { token: string; tenant: string } | undefined;
}

/** The model gateway: the only holder of provider keys. */
export class ModelGateway extends pulumi.ComponentResource {
  readonly url: pulumi.Output<string>;

  constructor(name: string, args: ModelGatewayArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:model-gateway:ModelGateway", name, {}, opts);
    const program = new Program(
      `${name}-program`,
      {
        release: args.release,
        component: "model-gateway",
        namespace: args.namespace,
        image: args.image,
        trustedCertificates: args.trustedCertificates,
        replicas: args.replicas,
        autoscaling: args.autoscaling,
        port: 8000,
        env: {
          ASSERTION_PUBLIC_KEY: args.assertionPublicKey,
          DEFAULT_LLM_MODEL: args.defaultModel,
          OTEL_EXPORTER_OTLP_ENDPOINT: args.tracing.url,
          ...(args.demo && { DEMO_PROVIDER: "true" }),
          ...(args.devToken && {
            DEV_TOKEN: args.devToken.token,
            DEV_TENANT: args.devToken.tenant,
          }),
        },
        secretEnv: {
          DATABASE_URL: args.databaseUrl,
          OTEL_EXPORTER_OTLP_HEADERS: args.tracing.otlpHeaders,
          ...Object.fromEntries(
            Object.entries(args.providers).map(([key, value]) => [key, pulumi.secret(value)]),
          ),
        },
        requests: { cpu: "50m", memory: "128Mi" },
        limits: { cpu: "1", memory: "512Mi" },
      },
      { parent: this },
    );
    this.url = program.url;
    this.registerOutputs({ url: this.url });
  }
}
