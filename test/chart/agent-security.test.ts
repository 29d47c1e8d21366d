import type { V1NetworkPolicyPeer, V1PodSpec } from "@kubernetes/client-node";
import { expect } from "chai";
import { notes, type Rendered, render } from "../support/helm.ts";

describe("an agent's pod", () => {
  let release: Rendered;
  let pod: V1PodSpec;

  before(async () => {
    release = await render();
    pod = podOf(release);
  });

  it("runs in the gVisor sandbox by default and says so", () => {
    expect(pod.runtimeClassName).to.equal("gvisor");
    expect(sandboxLabels(release)).to.deep.equal(["gvisor", "gvisor"]);
  });

  it("runs in another sandbox where the values name one", async () => {
    const other = await render({ runtimeClassName: "kata" });
    expect(podOf(other).runtimeClassName).to.equal("kata");
    expect(sandboxLabels(other)).to.deep.equal(["kata", "kata"]);
  });

  it("runs unsandboxed only when asked to, and then shows it everywhere", async () => {
    const values = { runtimeClassName: "", sandbox: "none" };
    const open = await render(values);
    expect(podOf(open).runtimeClassName).to.equal(undefined);
    expect(sandboxLabels(open)).to.deep.equal(["none", "none"]);
    expect(await notes(values)).to.include("WITHOUT A SANDBOX");
    expect(await notes()).to.not.include("WITHOUT A SANDBOX");
  });

  it("runs as an ordinary user who can't become another", () => {
    expect(pod.securityContext).to.deep.equal({
      runAsNonRoot: true,
      runAsUser: 1000,
      runAsGroup: 1000,
      seccompProfile: { type: "RuntimeDefault" },
    });
    expect(pod.containers[0]?.securityContext).to.deep.equal({
      allowPrivilegeEscalation: false,
      privileged: false,
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
      capabilities: { drop: ["ALL"] },
    });
  });

  it("shares nothing with its node", () => {
    for (const field of ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"] as const) {
      expect(pod[field], field).to.not.equal(true);
    }
    expect(pod.containers[0]?.ports?.[0]?.hostPort).to.equal(undefined);
  });

  it("can write to a small /tmp and nowhere else", () => {
    expect(pod.volumes).to.deep.equal([{ name: "tmp", emptyDir: { sizeLimit: "256Mi" } }]);
    expect(pod.containers[0]?.volumeMounts).to.deep.equal([{ name: "tmp", mountPath: "/tmp" }]);
  });

  it("has no token for the API server and learns of no other service", () => {
    expect(release.one("ServiceAccount").automountServiceAccountToken).to.equal(false);
    expect(pod.automountServiceAccountToken).to.equal(false);
    expect(pod.serviceAccountName).to.equal("assistant");
    expect(pod.enableServiceLinks).to.equal(false);
  });

  it("has the limits without which one agent could starve the rest", () => {
    expect(pod.containers[0]?.resources?.limits).to.have.keys("cpu", "memory", "ephemeral-storage");
  });
});

describe("an agent's network policy", () => {
  it("denies what it does not name, in and out, for exactly this release's pods", async () => {
    const spec = (await render()).one("NetworkPolicy").spec;
    expect(spec?.policyTypes).to.deep.equal(["Ingress", "Egress"]);
    expect(spec?.podSelector?.matchLabels).to.deep.equal({
      "app.kubernetes.io/name": "agent",
      "app.kubernetes.io/instance": "assistant",
    });
  });

  it("lets calls in from the platform's gateway alone", async () => {
    const spec = (await render()).one("NetworkPolicy").spec;
    expect(spec?.ingress?.map((rule) => [rule._from?.map(peerOf), rule.ports])).to.deep.equal([
      [["platform/platform/gateway"], [{ protocol: "TCP", port: 8000 }]],
    ]);
  });

  it("lets the agent out to DNS and to the parts of the platform that it needs", async () => {
    const spec = (await render()).one("NetworkPolicy").spec;
    const paths = spec?.egress?.flatMap((rule) =>
      (rule.to ?? []).flatMap((peer) =>
        (rule.ports ?? []).map(({ protocol, port }) => `${peerOf(peer)} ${protocol} ${port}`),
      ),
    );
    expect(paths).to.deep.equal([
      "kube-system/kube-dns UDP 53",
      "kube-system/kube-dns TCP 53",
      "platform/platform/postgres TCP 5432",
      "platform/platform/valkey TCP 6379",
      "platform/platform/model-gateway TCP 8000",
      "platform/platform/tool-gateway TCP 8000",
      "platform/platform/phoenix TCP 6006",
    ]);
    expect(spec?.egress?.every((rule) => rule.to?.length && rule.ports?.length)).to.equal(true);
  });

  it("follows the platform to another namespace and release name", async () => {
    const moved = await render({ platform: { releaseName: "prod", namespace: "agent-platform" } });
    const spec = moved.one("NetworkPolicy").spec;
    expect(spec?.ingress?.flatMap((rule) => rule._from?.map(peerOf))).to.deep.equal([
      "agent-platform/prod/gateway",
    ]);
    expect(moved.one("HTTPRoute").spec.parentRefs).to.deep.equal([
      { name: "prod", namespace: "agent-platform" },
    ]);
  });

  it("opens further ways only where the values name them", async () => {
    const rule = { to: [{ ipBlock: { cidr: "10.1.2.3/32" } }], ports: [{ port: 5432 }] };
    const spec = (await render({ networkPolicy: { extraEgress: [rule] } })).one(
      "NetworkPolicy",
    ).spec;
    expect(spec?.egress?.at(-1)).to.deep.equal(rule);
  });
});

function podOf(release: Rendered): V1PodSpec {
  const spec = release.one("Deployment").spec?.template.spec;
  if (spec === undefined) throw new Error("The Deployment has no pod.");
  return spec;
}

function sandboxLabels(release: Rendered): (string | undefined)[] {
  const { metadata, spec } = release.one("Deployment");
  return [metadata, spec?.template.metadata].map((on) => on?.labels?.["platform.dev/sandbox"]);
}

/** Namespace and labels of a peer, as one word. */
function peerOf(peer: V1NetworkPolicyPeer): string {
  const namespace = peer.namespaceSelector?.matchLabels?.["kubernetes.io/metadata.name"];
  const labels = peer.podSelector?.matchLabels ?? {};
  if (labels["k8s-app"] !== undefined) return `${namespace}/${labels["k8s-app"]}`;
  const { "app.kubernetes.io/instance": instance, "app.kubernetes.io/name": name } = labels;
  return `${namespace}/${instance}/${name}`;
}
