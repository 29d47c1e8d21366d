import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import { gatewayRules } from "../runtime/gateway/rbac.ts";
import { Program } from "./program.ts";
import type { StackConfiguration } from "./stack-configuration.ts";
import type { TrustedCertificates } from "./trusted-certificates.ts";
import { labels } from "./workload.ts";

export interface GatewayArgs {
  release: string;
  namespace: pulumi.Input<string>;
  image: pulumi.Input<string>;
  trustedCertificates: TrustedCertificates | undefined;
  replicas: number;
  autoscaling: StackConfiguration["autoscaling"];
  hosts: StackConfiguration["hosts"];
  corsOrigins: string[];
  modelGatewayUrl: pulumi.Input<string>;
  assertionPrivateKey: pulumi.Input<string>;
  tracing: { url: pulumi.Input<string>; otlpHeaders: pulumi.Input<string> };
  devToken: { token: string; tenant: string } | undefined;
  oidc: StackConfiguration["oidc"];
  nodePort: number | undefined;
}

/** The name of our Gateway and of its class: what an agent's HTTPRoute refers to. */
export const GATEWAY_NAME = "platform";
const CONTROLLER = "platform.dev/gateway";
const API_VERSION = "gateway.networking.k8s.io/v1";
const PORT = 8080;

/** The one door: the gateway program, and the Gateway API objects that agents' routes attach to. */
export class Gateway extends pulumi.ComponentResource {
  readonly program: Program;

  constructor(name: string, args: GatewayArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:gateway:Gateway", name, {}, opts);
    const child = { parent: this };
    const metadata = { name: GATEWAY_NAME, labels: labels(args.release, "gateway") };
    const gatewayClass = new k8s.apiextensions.CustomResource(
      `${name}-class`,
      {
        apiVersion: API_VERSION,
        kind: "GatewayClass",
        metadata,
        spec: { controllerName: CONTROLLER },
      },
      child,
    );
    new k8s.apiextensions.CustomResource(
      `${name}-object`,
      {
        apiVersion: API_VERSION,
        kind: "Gateway",
        metadata: { ...metadata, namespace: args.namespace },
        spec: {
          gatewayClassName: gatewayClass.metadata.name,
          listeners: [
            {
              name: "http",
              port: PORT,
              protocol: "HTTP",
              allowedRoutes: { namespaces: { from: "All" } },
            },
          ],
        },
      },
      child,
    );
    const { hosts, devToken, oidc } = args;
    this.program = new Program(
      `${name}-program`,
      {
        release: args.release,
        component: "gateway",
        namespace: args.namespace,
        image: args.image,
        trustedCertificates: args.trustedCertificates,
        replicas: args.replicas,
        autoscaling: args.autoscaling,
        port: PORT,
        env: {
          ROUTES_FROM: "kubernetes",
          GATEWAY_NAME,
          GATEWAY_NAMESPACE: args.namespace,
          GATEWAY_CLASS: GATEWAY_NAME,
          MODEL_GATEWAY_URL: args.modelGatewayUrl,
          TRACES_URL: args.tracing.url,
          AGENTS_HOST: hosts.agents,
          AI_GATEWAY_HOST: hosts.aiGateway,
          TRACES_HOST: hosts.traces,
          MCP_HOST: hosts.mcp,
          CONSOLE_HOST: hosts.console,
          OTEL_EXPORTER_OTLP_ENDPOINT: args.tracing.url,
          ...(args.corsOrigins.length > 0 && { CORS_ORIGINS: args.corsOrigins.join(",") }),
          ...(devToken && { DEV_TOKEN: devToken.token, DEV_TENANT: devToken.tenant }),
          ...(oidc && {
            JWT_JWKS_URL: oidc.jwksUri,
            JWT_ISSUER: oidc.issuer,
            JWT_AUDIENCE: oidc.audience,
          }),
        },
        secretEnv: {
          ASSERTION_PRIVATE_KEY: args.assertionPrivateKey,
          OTEL_EXPORTER_OTLP_HEADERS: args.tracing.otlpHeaders,
        },
        access: { rules: gatewayRules() },
        ...(args.nodePort !== undefined && { nodePort: args.nodePort }),
        requests: { cpu: "50m", memory: "128Mi" },
        limits: { cpu: "1", memory: "512Mi" },
      },
      child,
    );
    this.registerOutputs({});
  }
}
