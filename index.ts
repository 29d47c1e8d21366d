import { join } from "node:path";
import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import { Agent } from "./components/agent.ts";
import { agentSandbox } from "./components/agent-sandbox.ts";
import { agentsNamespaceOf } from "./components/agents-namespace.ts";
import { gatewayApiDefinitions } from "./components/gateway-api.ts";
import { agentImageName, deliverImages } from "./components/our-images.ts";
import { PlatformRelease, restrictedNamespaceLabels } from "./components/platform-release.ts";
import { defaultModelOf, readStackConfiguration } from "./components/stack-configuration.ts";
import { targetCluster } from "./components/target-cluster.ts";
import { TRACING_EMAIL } from "./components/tracing.ts";
import { readKeptSettings, settingsPath } from "./installer/settings.ts";
import { readAgents } from "./runtime/embedded/agents.ts";

const RELEASE = "platform";
const checkout = import.meta.dirname;
const dataDirectory = join(checkout, ".platform");
const cacheDirectory = join(dataDirectory, "artifacts");

const isLocal = pulumi.getStack() === "local";
const configuration = readStackConfiguration(
  pulumi.runtime.allConfig(),
  isLocal ? await readKeptSettings(settingsPath(dataDirectory, pulumi.getStack())) : {},
  isLocal ? process.env : {},
);
const model = defaultModelOf(configuration);
const agents = configuration.samples ? await readAgents(checkout, join(checkout, "agents")) : [];

const cluster = targetCluster(configuration, dataDirectory);
const crds = await gatewayApiDefinitions(configuration, cluster, cacheDirectory);
const namespace = new k8s.core.v1.Namespace(
  "platform",
  { metadata: { name: RELEASE, labels: restrictedNamespaceLabels() } },
  cluster.resource(),
);
const agentsHome = agentsNamespaceOf(configuration, cluster);

const image = deliverImages({ checkout, data: dataDirectory }, configuration, agents, cluster);

const platform = new PlatformRelease(
  "platform",
  {
    release: RELEASE,
    namespace: namespace.metadata.name,
    agentsNamespace: configuration.agentsNamespace,
    image,
    configuration,
    defaultModel: model,
    ...(cluster.nodePort !== undefined && { nodePort: cluster.nodePort }),
    gatewayApi: crds,
  },
  cluster.component(),
);

const sandbox = agentSandbox(configuration, cluster, {
  release: RELEASE,
  namespace: namespace.metadata.name,
  probeImage: image("worker"),
  cacheDirectory,
});

for (const agent of agents) {
  new Agent(
    `agent-${agent.graphId}`,
    {
      graphId: agent.graphId,
      image: image(agentImageName(agent.graphId)),
      namespace: configuration.agentsNamespace,
      platform: {
        release: RELEASE,
        namespace: namespace.metadata.name,
        agentsHost: configuration.hosts.agents,
      },
      runtimeClassName: sandbox?.runtimeClassName,
      trustedCertificates: configuration.trustedCertificates,
      chartDirectory: join(checkout, "charts"),
    },
    { ...cluster.component(), dependsOn: [platform, agentsHome] },
  );
}

export const clusterName = configuration.clusterName;
export const kubeconfig = cluster.kubeconfigPath;
export const agentsNamespace = configuration.agentsNamespace;
export const url = cluster.nodePort && `http://localhost:${configuration.hostPort}`;
export const defaultLlmModel = model;
export const graphIds = agents.map(({ graphId }) => graphId);
export const tracing = { email: TRACING_EMAIL, password: platform.tracingPassword };
export const unsandboxed = sandbox === undefined;
