import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { V1ConfigMap, V1Container, V1PodSpec } from "@kubernetes/client-node";
import { expect } from "chai";
import { lint, notes, type Rendered, render } from "../support/helm.ts";

const CA = readFileSync(join(import.meta.dirname, "../fixtures/components/ca.pem"), "utf8");

describe("an agent's release", () => {
  let release: Rendered;

  before(async () => {
    release = await render();
  });

  it("is a Deployment, a Service, a route, an account, a policy and a disruption budget", () => {
    expect(release.all.map((object) => object.kind)).to.have.members([
      "Deployment",
      "Service",
      "HTTPRoute",
      "ServiceAccount",
      "NetworkPolicy",
      "PodDisruptionBudget",
    ]);
  });

  it("is named after the release, in its namespace, everywhere", () => {
    for (const { metadata } of release.all) {
      expect(metadata).to.include({ name: "assistant", namespace: "agents" });
      expect(metadata?.labels).to.include({
        "app.kubernetes.io/name": "agent",
        "app.kubernetes.io/instance": "assistant",
        "app.kubernetes.io/part-of": "platform",
        "app.kubernetes.io/managed-by": "Helm",
        "platform.dev/graph-id": "assistant",
      });
    }
  });

  it("has names and labels within Kubernetes' 63 characters for the longest release", async () => {
    const longest = "a".repeat(53);
    const { all } = await render({ graphId: longest }, longest);
    for (const { metadata } of all) {
      expect(metadata?.name).to.have.lengthOf.at.most(63);
      for (const value of Object.values(metadata?.labels ?? {})) {
        expect(value).to.have.lengthOf.at.most(63);
      }
    }
  });

  it("takes a graph id as LangGraph projects have them, whatever the release is called", async () => {
    const graphId = `My_Agent-${"x".repeat(54)}`;
    const { all, one } = await render({ graphId }, "my-agent");
    for (const { metadata } of all) {
      expect(metadata?.name).to.equal("my-agent");
      expect(metadata?.labels).to.include({ "platform.dev/graph-id": graphId });
    }
    const [headers, query] = one("HTTPRoute").spec.rules[0]?.matches ?? [];
    expect(headers?.headers?.[0]?.value).to.equal(graphId);
    expect(query?.queryParams?.[0]?.value).to.equal(graphId);
    expect(one("Deployment").metadata?.annotations).to.include({
      "platform.dev/redis-prefix": `aegra:${graphId}`,
    });
  });

  it("reads names that YAML takes for something else as names", async () => {
    const odd = await render({ graphId: "123", image: { repository: "r", tag: "1.10" } }, "on");
    expect(odd.one("Deployment").metadata?.name).to.equal("on");
    expect(odd.one("Deployment").metadata?.labels).to.include({ "platform.dev/graph-id": "123" });
    expect(containerOf(odd).image).to.equal("r:1.10");
  });

  it("tells the provisioner where the credentials go and which prefix they are for", () => {
    expect(release.one("Deployment").metadata?.annotations).to.deep.equal({
      "platform.dev/credentials-secret": "assistant-credentials",
      "platform.dev/redis-prefix": "aegra:assistant",
    });
    expect(containerOf(release).envFrom).to.deep.equal([
      { secretRef: { name: "assistant-credentials" } },
    ]);
  });

  it("takes further annotations of the Deployment, and does not roll the pods for them", async () => {
    const { metadata, spec } = (
      await render({ deploymentAnnotations: { "example.com/owner": "team-a" } })
    ).one("Deployment");
    expect(metadata?.annotations).to.include({
      "example.com/owner": "team-a",
      "platform.dev/redis-prefix": "aegra:assistant",
    });
    expect(spec?.template).to.deep.equal(release.one("Deployment").spec?.template);
  });

  it("takes annotations of the Service, and has none by itself", async () => {
    const { metadata } = (await render({ serviceAnnotations: { "example.com/a": "b" } })).one(
      "Service",
    );
    expect(metadata?.annotations).to.deep.equal({ "example.com/a": "b" });
    expect(release.one("Service").metadata?.annotations).to.equal(undefined);
  });

  it("takes the prefix that the values name", async () => {
    const other = await render({ redis: { prefix: "aegra:shared-name" } });
    expect(other.one("Deployment").metadata?.annotations).to.include({
      "platform.dev/redis-prefix": "aegra:shared-name",
    });
    expect(environmentOf(other)).to.include({ REDIS_PREFIX: "aegra:shared-name" });
  });

  it("rolls the pods when what their credentials depend on changes, and not otherwise", async () => {
    const checksum = (rendered: Rendered) =>
      rendered.one("Deployment").spec?.template.metadata?.annotations?.[
        "platform.dev/config-checksum"
      ];
    const moved = await render({ platform: { releaseName: "other" } });
    const spread = await render({ replicas: 3 });
    expect(checksum(moved)).to.match(/^[0-9a-f]{64}$/);
    expect(checksum(moved)).to.not.equal(checksum(release));
    expect(checksum(spread)).to.equal(checksum(release));
  });

  it("keeps its selector when anything else changes", async () => {
    const changed = await render({ graphId: "other", podLabels: { team: "payments" } });
    const selector = { matchLabels: SELECTOR };
    expect(changed.one("Deployment").spec?.selector).to.deep.equal(selector);
    expect(changed.one("Deployment").spec?.template.metadata?.labels).to.include({
      ...SELECTOR,
      team: "payments",
    });
  });

  it("is one replica with the requests, limits and probes of an agent", () => {
    expect(release.one("Deployment").spec?.replicas).to.equal(1);
    const container = containerOf(release);
    expect(container.resources).to.deep.equal({
      requests: { cpu: "100m", memory: "256Mi", "ephemeral-storage": "64Mi" },
      limits: { cpu: "1", memory: "1Gi", "ephemeral-storage": "512Mi" },
    });
    expect(container.ports).to.deep.equal([{ name: "http", containerPort: 8000, protocol: "TCP" }]);
    expect(container.livenessProbe?.httpGet).to.deep.equal({ path: "/live", port: "http" });
    expect(container.readinessProbe?.httpGet).to.deep.equal({ path: "/ready", port: "http" });
    expect(container.startupProbe?.httpGet).to.deep.equal({ path: "/health", port: "http" });
  });

  it("drains for 30 s within a grace of 35 s, and says so to the agent", async () => {
    expect(podOf(release).terminationGracePeriodSeconds).to.equal(35);
    expect(environmentOf(release)).to.include({ PORT: "8000", DRAIN_MS: "30000" });
    const patient = await render({ drainSeconds: 90 });
    expect(podOf(patient).terminationGracePeriodSeconds).to.equal(95);
    expect(environmentOf(patient)).to.include({ DRAIN_MS: "90000" });
  });

  it("scales between 2 and 8 at 70 % CPU once asked to, and then leaves the count alone", async () => {
    const scaled = await render({ autoscaling: { enabled: true } });
    expect(scaled.one("Deployment").spec?.replicas).to.equal(undefined);
    const { spec } = scaled.one("HorizontalPodAutoscaler");
    expect(spec).to.deep.include({
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "assistant" },
      minReplicas: 2,
      maxReplicas: 8,
    });
    expect(JSON.stringify(spec)).to.include('"averageUtilization":70');
  });

  it("never holds up the drain of a node, whatever the number of replicas", () => {
    const { spec } = release.one("PodDisruptionBudget");
    expect(spec?.maxUnavailable).to.equal(1);
    expect(spec?.minAvailable).to.equal(undefined);
    expect(spec?.selector?.matchLabels).to.deep.equal(SELECTOR);
  });

  it("takes the image by digest where there is one, else by tag", async () => {
    expect(containerOf(release).image).to.equal("registry.example.com/agents/assistant:1.4.0");
    const digest = `sha256:${"0".repeat(64)}`;
    const pinned = await render({ image: { repository: "registry/a", tag: "1", digest } });
    expect(containerOf(pinned).image).to.equal(`registry/a@${digest}`);
  });

  it("registers its graph id on the shared host, by header or by query", () => {
    const { spec } = release.one("HTTPRoute");
    expect(spec).to.deep.equal({
      parentRefs: [{ name: "platform", namespace: "platform" }],
      hostnames: ["agents.example.com"],
      rules: [
        {
          matches: [
            { headers: [{ type: "Exact", name: "X-Graph-ID", value: "assistant" }] },
            { queryParams: [{ type: "Exact", name: "graph_id", value: "assistant" }] },
          ],
          backendRefs: [{ name: "assistant", port: 8000 }],
        },
      ],
    });
    expect(release.one("Service").spec).to.deep.include({
      type: "ClusterIP",
      selector: SELECTOR,
    });
  });

  it("hands on extra environment as it is written", async () => {
    const extraEnv = [
      { name: "GREETING", value: "yes" },
      { name: "SEARCH_API_KEY", valueFrom: { secretKeyRef: { name: "search", key: "api-key" } } },
    ];
    const { env } = containerOf(await render({ extraEnv }));
    expect(env?.slice(-2)).to.deep.equal(extraEnv);
  });

  it("trusts the CAs of the values beside the public ones, and rolls when they change", async () => {
    const path = "/etc/platform/trusted-certificates";
    const trusting = await render({ trustedCertificates: CA });
    const map = trusting.all.find(({ kind }) => kind === "ConfigMap") as V1ConfigMap;
    expect(map.data).to.deep.equal({ "certificates.pem": CA });
    expect(environmentOf(trusting)).to.include({ NODE_EXTRA_CA_CERTS: `${path}/certificates.pem` });
    const name = "trusted-certificates";
    const mount = { name, mountPath: path, readOnly: true };
    expect(containerOf(trusting).volumeMounts).to.deep.include(mount);
    const volume = { name, configMap: { name: map.metadata?.name } };
    expect(podOf(trusting).volumes).to.deep.include(volume);
    const annotationsOf = ({ one }: Rendered) =>
      one("Deployment").spec?.template.metadata?.annotations;
    expect(annotationsOf(trusting)).not.to.deep.equal(
      annotationsOf(await render({ trustedCertificates: `${CA}${CA}` })),
    );
    expect(release.text).not.to.include(name);
  });

  it("prints a curl that can be pasted: a dev token on this machine, a variable elsewhere", async () => {
    const remote = await notes();
    expect(remote).to.include("curl -sS https://agents.example.com/runs/wait");
    expect(remote).to.include('"Authorization: Bearer $ACCESS_TOKEN"');
    const local = await notes({ sharedRoute: { host: "agents.localhost" } });
    expect(local).to.include("curl -sS http://agents.localhost:8088/runs/wait");
    expect(local).to.include("'Authorization: Bearer local-dev-token'");
    expect(local).to.include("'X-Graph-ID: assistant'");
    const named = await notes({ sharedRoute: { host: "a.internal", url: "http://a.internal:1/" } });
    expect(named).to.include("curl -sS http://a.internal:1/runs/wait");
  });

  it("passes helm lint --strict", async () => {
    const { code, stdout } = await lint({ autoscaling: { enabled: true } });
    expect(code, stdout).to.equal(0);
  });
});

const SELECTOR = {
  "app.kubernetes.io/name": "agent",
  "app.kubernetes.io/instance": "assistant",
};

function podOf(release: Rendered): V1PodSpec {
  const spec = release.one("Deployment").spec?.template.spec;
  if (spec === undefined) throw new Error("The Deployment has no pod.");
  return spec;
}

function containerOf(release: Rendered): V1Container {
  const [container, ...more] = podOf(release).containers;
  if (container === undefined || more.length > 0) throw new Error("Not one container.");
  return container;
}

function environmentOf(release: Rendered): Record<string, string | undefined> {
  return Object.fromEntries((containerOf(release).env ?? []).map((e) => [e.name, e.value]));
}
