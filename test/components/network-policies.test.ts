import type {
  V1NetworkPolicyEgressRule,
  V1NetworkPolicyIngressRule,
  V1NetworkPolicyPeer,
  V1NetworkPolicySpec,
} from "@kubernetes/client-node";
import { expect } from "chai";
import { componentPolicy, DENY_ALL } from "../../components/network-policies.ts";
import { platformWays } from "../../components/platform-ways.ts";
import { readStackConfiguration } from "../../components/stack-configuration.ts";
import {
  type Described,
  kubernetesObjects,
  ofKind,
  selects,
  workloads,
} from "../support/kubernetes-objects.ts";
import { asText, localStack } from "../support/pulumi-program.ts";

const COMPONENTS = ["gateway", "model-gateway", "provisioner", "postgres", "valkey", "phoenix"];
const NAME = "app.kubernetes.io/name";

/** A stack whose one provider is on the internet. */
const PUBLIC = { "platform:providers": { OPENAI_API_KEY: "sk-key" } };
const waysOf = (values: Record<string, unknown> = PUBLIC) =>
  platformWays(readStackConfiguration(asText(values))).ways;
const policyOf = (component: string, values?: Record<string, unknown>) =>
  componentPolicy(component, waysOf(values)) as V1NetworkPolicySpec;
const podsOf = (peers: V1NetworkPolicyPeer[] = []) =>
  peers.flatMap(({ podSelector }) => podSelector?.matchLabels?.[NAME] ?? []);
const portsOf = (rule: V1NetworkPolicyEgressRule | V1NetworkPolicyIngressRule) =>
  (rule.ports ?? []).map(({ port }) => Number(port));

/** `gateway → phoenix:6006`, as the policies of one side have it. */
function outgoing(): string[] {
  return COMPONENTS.flatMap((from) =>
    (policyOf(from).egress ?? []).flatMap((rule) =>
      podsOf(rule.to).flatMap((target) =>
        portsOf(rule).map((port) => `${from} → ${target}:${port}`),
      ),
    ),
  );
}

function incoming(): string[] {
  return COMPONENTS.flatMap((target) =>
    (policyOf(target).ingress ?? []).flatMap((rule) =>
      podsOf((rule as unknown as { from?: V1NetworkPolicyPeer[] }).from).flatMap((from) =>
        portsOf(rule).map((port) => `${from} → ${target}:${port}`),
      ),
    ),
  );
}

describe("the network policies", () => {
  let all: Described[];

  before(async () => {
    all = kubernetesObjects((await localStack()).resources);
  });

  it("deny everything both ways in the platform's and in the agents' namespace", () => {
    const denials = ofKind(all, "NetworkPolicy").filter(
      ({ spec }) => Object.keys(spec?.podSelector ?? {}).length === 0,
    );
    expect(denials.map(({ metadata }) => metadata?.namespace)).to.have.members([
      "platform",
      "default",
    ]);
    for (const { spec } of denials) expect(spec).to.deep.equal(DENY_ALL);
  });

  it("have one of its own for every component of the platform", () => {
    const servers = workloads(all).filter(({ kind }) => kind !== "Job");
    for (const { name, namespace, labels } of servers) {
      const mine = ofKind(all, "NetworkPolicy").filter(
        ({ metadata, spec }) =>
          metadata?.namespace === namespace &&
          spec?.podSelector?.matchLabels !== undefined &&
          selects(spec.podSelector.matchLabels, labels),
      );
      expect(mine, name).to.have.length(1);
      expect(mine[0]?.spec?.policyTypes, name).to.have.members(["Ingress", "Egress"]);
    }
  });

  it("let out only where the other side lets in, and the other way round", () => {
    const inside = (path: string) => COMPONENTS.some((name) => path.includes(`→ ${name}:`));
    const ofAgents = (path: string) => path.startsWith("agent →");
    expect(outgoing().filter(inside)).to.have.members(incoming().filter((path) => !ofAgents(path)));
  });

  it("let agents to their database, their events and the model gateway, and to nothing else", () => {
    expect(incoming().filter((path) => path.startsWith("agent →"))).to.have.members([
      "agent → model-gateway:8000",
      "agent → postgres:5432",
      "agent → valkey:6379",
    ]);
  });

  it("name the API server for the gateway and the provisioner only", () => {
    const watchers = COMPONENTS.filter((component) =>
      policyOf(component).egress?.some((rule) => portsOf(rule).includes(6443)),
    );
    expect(watchers).to.have.members(["gateway", "provisioner"]);
  });

  it("let what keeps data call nobody", () => {
    for (const component of ["postgres", "valkey", "phoenix"]) {
      expect(policyOf(component).egress, component).to.deep.equal([]);
    }
  });

  it("are not made up for a component that nobody has described", () => {
    expect(() => componentPolicy("mystery", waysOf())).to.throw("mystery");
  });
});
