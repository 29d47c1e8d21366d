import { expect } from "chai";
import { artifacts } from "../../components/artifacts.ts";
import { egressSettings } from "../../components/egress.ts";
import { stackSchema } from "../../components/stack-configuration.ts";
import { type Described, kubernetesObjects, workloads } from "../support/kubernetes-objects.ts";
import { productionExample, productionStack } from "../support/production-stack.ts";
import { CANARY, inClear, plain, type Registered } from "../support/pulumi-monitor.ts";
import { asText } from "../support/pulumi-program.ts";

const text = productionExample();

describe("the example of a stack for an existing cluster", () => {
  let resources: Registered[];
  let objects: Described[];
  const object = (kind: string, name: string) =>
    objects.find((each) => each.kind === kind && each.metadata?.name === name);
  const types = () => resources.map(({ type }) => type);

  before(async () => {
    ({ resources } = await productionStack({ preview: true }));
    objects = kubernetesObjects(resources);
  });

  it("previews as it is printed, once its commands have been followed", () => {
    expect(resources.map(({ name }) => name)).to.include.members([
      "platform-gateway-program-deployment",
      "platform-model-gateway-program-deployment",
      "platform-provisioner-program-deployment",
    ]);
  });

  it("installs into the context that it names, and makes no cluster", () => {
    const provider = resources.find(({ type }) => type === "pulumi:providers:kubernetes");
    expect(provider?.inputs).to.deep.include({ context: "production" });
    expect(types().filter((type) => type.startsWith("kindlocal:"))).to.deep.equal([]);
    for (const { name, type, provider: used } of resources) {
      if (type.startsWith("kubernetes:")) expect(used, name).to.include("::cluster::");
    }
  });

  it("pushes our images to its registry and starts pods by their digests", () => {
    const built = resources.filter(
      ({ type, name }) => type === "docker:index/image:Image" && name !== "runtime-build",
    );
    expect(built).to.have.length(4);
    for (const { inputs } of built) {
      expect(inputs.skipPush).to.equal(false);
      expect(inputs.imageName).to.match(/^registry\.example\.com\/platform\/[a-z-]+:2\.3\.1-/);
    }
  });

  it("runs no database and no cache of its own", () => {
    const kinds = objects.map(({ kind, metadata }) => `${kind} ${metadata?.name}`);
    expect(kinds).not.to.include("StatefulSet platform-postgres");
    expect(kinds).not.to.include("Deployment platform-valkey");
    // Nor ways to pods that somebody could give their names.
    expect(kinds).to.include("NetworkPolicy platform-model-gateway");
    for (const { kind, spec } of objects) {
      if (kind === "NetworkPolicy") {
        expect(JSON.stringify(spec)).not.to.match(/"(postgres|valkey)"/);
      }
    }
  });

  it("keeps the URLs of both and the provider's key secret", () => {
    for (const { urn, inputs } of resources) {
      expect(
        inClear(inputs).filter((value) => value.includes(CANARY)),
        urn,
      ).to.deep.equal([]);
    }
    expect(JSON.stringify(resources.map(({ inputs }) => plain(inputs)))).to.include(CANARY);
  });

  it("gives the provisioner's database role to the provisioner alone, and the model gateway its own", async () => {
    const made = await productionStack();
    const holdersOf = (value: string) =>
      made.resources
        .filter(({ inputs }) => JSON.stringify(plain(inputs)).includes(value))
        .map(({ name }) => name);
    expect(holdersOf(`${CANARY}-admin`)).to.deep.equal([
      "platform-provisioner-program-environment",
    ]);
    expect(holdersOf(`${CANARY}-own`)).to.deep.equal([
      "platform-model-gateway-program-environment",
    ]);
  });

  it("accepts its issuer's tokens and no dev token", () => {
    const [gateway] = object("Deployment", "platform-gateway")?.spec.template.spec.containers ?? [];
    expect(gateway.env).to.deep.include({
      name: "JWT_ISSUER",
      value: "https://id.example.com/realms/platform",
    });
    expect(gateway.env).to.deep.include({ name: "AGENTS_HOST", value: "agents.example.com" });
    expect(JSON.stringify(objects)).not.to.include("DEV_TOKEN");
  });

  it("lets pages of other origins in only where a setting names them", async () => {
    const origins = (described: Described[]) =>
      workloads(described)
        .find(({ name }) => name === "platform-gateway")
        ?.template.spec?.containers[0]?.env?.find(({ name }) => name === "CORS_ORIGINS")?.value;
    expect(origins(objects)).to.equal(undefined);

    const named = asText({
      "platform:corsOrigins": ["https://studio.example.com", "http://localhost:3000"],
    });
    const { resources } = await productionStack({ changes: named, preview: true });
    expect(origins(kubernetesObjects(resources))).to.equal(
      "https://studio.example.com,http://localhost:3000",
    );
  });

  it("runs as many copies as it says, behind a Service that is not open on the nodes", () => {
    for (const name of ["platform-gateway", "platform-model-gateway"]) {
      expect(object("Deployment", name)?.spec.replicas, name).to.equal(3);
      expect(object("Service", name)?.spec.type, name).to.equal("ClusterIP");
    }
  });

  it("runs more copies under load where a setting says so, and takes none back", async () => {
    const changes = asText({ "platform:autoscaling": { maxReplicas: 10 } });
    const { resources } = await productionStack({ changes, preview: true });
    const scaled = kubernetesObjects(resources);
    const autoscalers = scaled.filter(({ kind }) => kind === "HorizontalPodAutoscaler");
    expect(autoscalers.map(({ spec }) => spec)).to.have.deep.members(
      ["platform-gateway", "platform-model-gateway"].map((name) => ({
        scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name },
        minReplicas: 3,
        maxReplicas: 10,
        metrics: [
          {
            type: "Resource",
            resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 70 } },
          },
        ],
      })),
    );
    for (const name of ["gateway", "model-gateway"]) {
      const deployment = resources.find(
        (resource) => resource.name === `platform-${name}-program-deployment`,
      );
      expect(deployment?.ignoreChanges, name).to.deep.equal(["spec.replicas"]);
      expect(deployment?.inputs.spec, name).to.include({ replicas: 3 });
    }
  });

  it("proves the sandbox on the cluster's own runtime class", () => {
    const job = objects.find(({ kind }) => kind === "Job");
    expect(job?.spec.template.spec.runtimeClassName).to.equal("gvisor");
    expect(objects.map(({ kind }) => kind)).not.to.include("RuntimeClass");
  });

  it("brings Gateway API and leaves it there for others, or takes what is there", async () => {
    const definitions = resources.find(({ name }) => name === "gateway-api");
    expect(definitions?.retainOnDelete).to.equal(true);
    const changes = { "platform:gatewayApi": "present" };
    const without = await productionStack({ changes, preview: true });
    expect(without.resources.map(({ name }) => name)).not.to.include("gateway-api");
    expect(without.resources.map(({ type }) => type)).to.include(
      "kubernetes:gateway.networking.k8s.io/v1:GatewayClass",
    );
  });

  it("turns Pod Security on where its agents live", () => {
    const namespaces = objects.filter(({ kind }) => kind === "Namespace");
    expect(namespaces.map(({ metadata }) => metadata?.name)).to.have.members([
      "platform",
      "agents",
    ]);
  });

  it("opens the way to both for the programs and the agents that use them", () => {
    const to = [{ ipBlock: { cidr: "192.0.2.0/28" } }];
    const rules = (namespace: string, name: string) =>
      objects.find(
        ({ kind, metadata }) =>
          kind === "NetworkPolicy" && metadata?.name === name && metadata.namespace === namespace,
      )?.spec.egress;
    const database = { to, ports: [{ protocol: "TCP", port: 5432 }] };
    const cache = { to, ports: [{ protocol: "TCP", port: 6380 }] };
    expect(rules("agents", "platform-external-servers")).to.deep.equal([database, cache]);
    expect(rules("platform", "platform-provisioner")).to.deep.include(database).and.include(cache);
    expect(rules("platform", "platform-model-gateway")).to.deep.include(database);
  });

  it("comments out only ways out that there are", () => {
    const egress = text.slice(text.indexOf("platform:egress:"));
    const commented = [...egress.matchAll(/^ {4}# (\w+):/gm)].map(([, key]) => key);
    expect(commented).to.deep.equal(["providers", "oidc", "dns", "apiServer", "except"]);
    expect(Object.keys(egressSettings.shape)).to.include.members(commented);
  });

  it("comments out only settings that there are, with the checksum that is pinned", () => {
    const commented = [...text.matchAll(/^ +# platform:(\w+):/gm)].map(([, key]) => key);
    expect(commented).to.have.members([
      "kubeconfig",
      "imagePlatform",
      "corsOrigins",
      "autoscaling",
      "trustedCertificates",
      "images",
      "artifacts",
    ]);
    expect(Object.keys(stackSchema.shape)).to.include.members(commented);
    expect(text).to.include(artifacts("x64").gatewayApi?.checksum);
  });
});
