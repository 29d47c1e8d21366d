import { BlockList, isIP } from "node:net";
import type { V1NetworkPolicyPeer, V1NetworkPolicySpec } from "@kubernetes/client-node";
import { expect } from "chai";
import { agentsPolicy, componentPolicy } from "../../components/network-policies.ts";
import { platformWays } from "../../components/platform-ways.ts";
import { readStackConfiguration } from "../../components/stack-configuration.ts";
import { kubernetesObjects, ofKind } from "../support/kubernetes-objects.ts";
import { asText, configOf, runProgram } from "../support/pulumi-program.ts";

const DEMO = { "platform:demo": true };
const EXISTING = {
  ...DEMO,
  "platform:cluster": "existing",
  "platform:kubeContext": "production",
  "platform:registry": "registry.example.com/platform",
  "platform:agentsNamespace": "agents",
  "platform:oidc": {
    issuer: "https://id.example.com",
    audience: "platform",
    jwksUri: "https://id.example.com/jwks",
  },
};
const DATABASE = (host: string) => ({
  url: `postgres://provisioner:CANARY@${host}/platform`,
  modelGatewayUrl: `postgres://model_gateway:CANARY@${host}/platform`,
});

const waysOf = (values: Record<string, unknown>) =>
  platformWays(readStackConfiguration(asText(values))).ways;
const policyOf = (component: string, values: Record<string, unknown>) =>
  componentPolicy(component, waysOf(values)) as V1NetworkPolicySpec;
const agents = (values: Record<string, unknown>) =>
  agentsPolicy(waysOf(values)) as V1NetworkPolicySpec | undefined;
const providers = (variables: Record<string, string>) => ({ "platform:providers": variables });

function refusal(values: Record<string, unknown>): string {
  try {
    waysOf(values);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("The configuration should have been refused.");
}

/** Whether a policy lets out to an address by a port, as an enforcing CNI reckons. */
function letsOut(policy: V1NetworkPolicySpec | undefined, address: string, port: number): boolean {
  return (policy?.egress ?? []).some(
    ({ to, ports }) =>
      (ports ?? []).some((each) => each.protocol === "TCP" && each.port === port) &&
      (to ?? []).some((peer) => covers(peer, address)),
  );
}

function covers({ ipBlock }: V1NetworkPolicyPeer, address: string): boolean {
  if (ipBlock === undefined) return false;
  const inside = (cidr: string) => {
    const [network = "", bits] = cidr.split("/");
    if (isIP(network) !== isIP(address)) return false;
    const list = new BlockList();
    const family = isIP(network) === 4 ? "ipv4" : "ipv6";
    list.addSubnet(network, Number(bits), family);
    return list.check(address, family);
  };
  return inside(ipBlock.cidr) && !(ipBlock.except ?? []).some(inside);
}

describe("the way out of the model gateway", () => {
  const OPENAI = providers({ OPENAI_API_KEY: "sk-key" });

  it("is to the internet, by the providers' port alone", () => {
    const policy = policyOf("model-gateway", OPENAI);
    for (const address of ["93.184.216.34", "2606:2800:220:1::1"]) {
      expect(letsOut(policy, address, 443), address).to.equal(true);
      for (const port of [22, 80, 6443, 8000]) {
        expect(letsOut(policy, address, port), `${address}:${port}`).to.equal(false);
      }
    }
  });

  it("is not to pods, Services, nodes, private networks or the cloud's credentials", () => {
    const policy = policyOf("model-gateway", OPENAI);
    for (const address of [
      ...["10.96.0.1", "10.244.0.7", "172.18.0.2", "192.168.1.1", "100.64.0.9", "127.0.0.1"],
      ...["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "fe80::1", "::1"],
    ]) {
      expect(letsOut(policy, address, 443), address).to.equal(false);
    }
  });

  it("is not to public addresses that the stack says are no internet", () => {
    const egress = { except: ["192.0.2.0/24", "2001:db8::/32"] };
    const policy = policyOf("model-gateway", { ...OPENAI, "platform:egress": egress });
    expect(letsOut(policy, "192.0.2.9", 443)).to.equal(false);
    expect(letsOut(policy, "2001:db8::1", 443)).to.equal(false);
    expect(letsOut(policy, "198.51.100.1", 443)).to.equal(true);
  });

  it("follows a base URL to its port, and one that is an address to that address", () => {
    const named = providers({ OPENAI_API_KEY: "k", OPENAI_BASE_URL: "http://llm.example.com/v1" });
    expect(letsOut(policyOf("model-gateway", named), "93.184.216.34", 80)).to.equal(true);
    expect(letsOut(policyOf("model-gateway", named), "93.184.216.34", 443)).to.equal(false);

    const inside = providers({ OPENAI_API_KEY: "k", OPENAI_BASE_URL: "http://10.1.2.3:9000/v1" });
    expect(letsOut(policyOf("model-gateway", inside), "10.1.2.3", 9000)).to.equal(true);
    expect(letsOut(policyOf("model-gateway", inside), "10.1.2.4", 9000)).to.equal(false);

    const six = providers({ VLLM_BACKEND_URL: "http://[fd00::5]:8000" });
    expect(letsOut(policyOf("model-gateway", six), "fd00::5", 8000)).to.equal(true);
    expect(letsOut(policyOf("model-gateway", six), "fd00::6", 8000)).to.equal(false);
  });

  it("is nowhere beyond the platform for the demo model", () => {
    const ends = policyOf("model-gateway", DEMO).egress?.flatMap(({ to }) => to ?? []) ?? [];
    expect(ends.some(({ ipBlock }) => ipBlock !== undefined)).to.equal(false);
  });

  it("is to nobody, by no port, where a setting names private providers and there are none", () => {
    const to = [{ ipBlock: { cidr: "10.0.0.0/8" } }];
    const values = { ...DEMO, "platform:egress": { providers: { to } } };
    expect(waysOf(values).providers).to.deep.equal([]);
  });

  it("of a kind cluster is to a server on its machine, by that port and past the pods", () => {
    const local = providers({ OLLAMA_LOCAL_HOST: "http://host.docker.internal:11434" });
    const policy = policyOf("model-gateway", local);
    for (const address of ["172.17.0.1", "192.168.65.254"]) {
      expect(letsOut(policy, address, 11_434), address).to.equal(true);
      expect(letsOut(policy, address, 6443), address).to.equal(false);
    }
    for (const address of ["10.244.0.7", "10.96.0.1", "169.254.169.254"]) {
      expect(letsOut(policy, address, 11_434), address).to.equal(false);
    }
  });

  for (const [what, cluster, url] of [
    ["a server in a kind cluster", DEMO, "http://vllm.models.svc:8000"],
    ["a server in the cluster", EXISTING, "http://vllm.models.svc.cluster.local:8000"],
    ["a server of the network", EXISTING, "http://vllm.corp.internal:8000"],
    ["a server without a domain", EXISTING, "http://vllm:8000"],
  ] as const) {
    it(`has to be told to ${what}, which the message names`, () => {
      const values = { ...cluster, ...providers({ VLLM_BACKEND_URL: url }) };
      const message = refusal(values);
      expect(message)
        .to.match(/^ {2}platform:egress\.providers: is needed for vllm/m)
        .and.include("ipBlock");

      const models = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "m" } } };
      const told = { ...values, "platform:egress": { providers: { to: [models] } } };
      expect(policyOf("model-gateway", told).egress).to.deep.include({
        to: [models],
        ports: [{ protocol: "TCP", port: 8000 }],
      });
    });
  }

  for (const host of ["localhost", "127.0.0.1", "[::1]", "ollama.localhost"]) {
    it(`does not lead to ${host}, which a pod is itself, and the message says what to write`, () => {
      const values = providers({ OLLAMA_LOCAL_HOST: `http://${host}:11434` });
      expect(refusal(values)).to.match(/platform:providers: .*own pod.*host\.docker\.internal/);
    });
  }

  it("names a base URL that is none", () => {
    const values = providers({ OPENAI_API_KEY: "k", OPENAI_BASE_URL: "CANARY" });
    expect(refusal(values)).to.match(/platform:providers: .*OPENAI_BASE_URL/);
  });
});

describe("the way to an external database and cache", () => {
  const both = (database: string, cache: string) => ({
    ...DEMO,
    "platform:database": DATABASE(database),
    "platform:cache": { url: `rediss://admin:CANARY@${cache}` },
  });

  it("is open to those that need it where the URLs have addresses, by their ports", () => {
    const values = both("192.0.2.5:6432", "[2001:db8::6]:6380");
    const reach = (policy: V1NetworkPolicySpec | undefined) => [
      letsOut(policy, "192.0.2.5", 6432),
      letsOut(policy, "2001:db8::6", 6380),
    ];
    expect(reach(policyOf("provisioner", values))).to.deep.equal([true, true]);
    expect(reach(policyOf("model-gateway", values))).to.deep.equal([true, false]);
    expect(reach(agents(values))).to.deep.equal([true, true]);
    expect(reach(policyOf("gateway", values))).to.deep.equal([false, false]);
    expect(letsOut(agents(values), "192.0.2.5", 5432)).to.equal(false);
    expect(letsOut(agents(values), "192.0.2.6", 6432)).to.equal(false);
  });

  it("has to be told where a URL has a name, and takes the standard ports then", () => {
    const values = both("db.example.com", "cache.example.com");
    expect(refusal(values))
      .to.match(/^ {2}platform:egress\.database: is needed .*platform:database.*ipBlock/m)
      .and.match(/^ {2}platform:egress\.cache: is needed/m)
      .and.not.include("CANARY");
    const to = [{ ipBlock: { cidr: "192.0.2.0/28" } }];
    const told = { ...values, "platform:egress": { database: { to }, cache: { to } } };
    expect(letsOut(agents(told), "192.0.2.1", 5432)).to.equal(true);
    expect(letsOut(agents(told), "192.0.2.1", 6379)).to.equal(true);
    expect(letsOut(agents(told), "192.0.2.77", 5432)).to.equal(false);
  });

  it("goes by another port where pods listen on another one than their Service", () => {
    const database = {
      to: [{ podSelector: { matchLabels: { app: "pgbouncer" } } }],
      ports: [{ port: 6432 }],
    };
    const values = {
      ...DEMO,
      "platform:database": DATABASE("pgbouncer.databases.svc"),
      "platform:egress": { database },
    };
    expect(agents(values)?.egress).to.deep.equal([
      { to: database.to, ports: [{ protocol: "TCP", port: 6432 }] },
    ]);
  });

  it("is for all agents of their namespace, and not there with the platform's own servers", async () => {
    const policies = async (values: Record<string, unknown>) => {
      const config = { ...configOf("Pulumi.local.yaml"), ...asText(values) };
      const objects = kubernetesObjects((await runProgram(config)).resources);
      return ofKind(objects, "NetworkPolicy").filter(
        ({ metadata }) => metadata?.name === "platform-external-servers",
      );
    };
    const [policy] = await policies(both("192.0.2.5", "192.0.2.6"));
    expect(policy?.metadata?.namespace).to.equal("default");
    expect(policy?.spec?.podSelector).to.deep.equal({
      matchLabels: { "app.kubernetes.io/name": "agent", "app.kubernetes.io/part-of": "platform" },
    });
    expect(policy?.spec?.policyTypes).to.deep.equal(["Egress"]);
    expect(await policies(DEMO)).to.deep.equal([]);
  });
});

describe("the way to name servers", () => {
  const PROGRAMS = ["gateway", "model-gateway", "provisioner"];
  const BOTH = [
    { protocol: "UDP", port: 53 },
    { protocol: "TCP", port: 53 },
  ];
  const named = (dns: object) => ({ ...DEMO, "platform:egress": { dns } });

  it("is to kube-dns where nothing else is said", () => {
    for (const component of PROGRAMS) {
      expect(policyOf(component, DEMO).egress?.[0], component).to.deep.equal({
        to: [
          {
            namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
            podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
          },
        ],
        ports: BOTH,
      });
    }
    expect(agents(DEMO)).to.equal(undefined);
  });

  it("is to those of a setting in their place, for programs and agents, by port 53", () => {
    const to = [{ ipBlock: { cidr: "169.254.20.10/32" } }];
    const values = named({ to });
    const rule = { to, ports: BOTH };
    for (const component of PROGRAMS) {
      const { egress } = policyOf(component, values);
      expect(egress, component).to.deep.include(rule);
      expect(JSON.stringify(egress), component).not.to.include("kube-dns");
    }
    expect(agents(values)?.egress).to.deep.equal([rule]);
  });

  it("goes by the ports of the setting", () => {
    const dns = {
      to: [
        { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "openshift-dns" } } },
      ],
      ports: [
        { protocol: "UDP", port: 5353 },
        { protocol: "TCP", port: 5353 },
      ],
    };
    expect(policyOf("gateway", named(dns)).egress).to.deep.include(dns);
  });

  it("is refused without UDP, which a port alone does not mean", () => {
    const dns = { to: [{ podSelector: { matchLabels: {} } }], ports: [{ port: 5353 }] };
    expect(refusal(named(dns))).to.match(/platform:egress\.dns\.ports: .*protocol: UDP/);
  });
});

describe("the way to the issuer of tokens and to the API server", () => {
  const oidc = (jwksUri: string) => ({
    ...EXISTING,
    "platform:oidc": { issuer: "https://id.example.com", audience: "platform", jwksUri },
  });

  it("leads the gateway to the issuer's keys on the internet", () => {
    const policy = policyOf("gateway", oidc("https://id.example.com/jwks"));
    expect(letsOut(policy, "93.184.216.34", 443)).to.equal(true);
    expect(letsOut(policy, "10.0.0.1", 443)).to.equal(false);
    expect(letsOut(policyOf("gateway", DEMO), "93.184.216.34", 443)).to.equal(false);
  });

  it("has to be told to an issuer inside", () => {
    const message = refusal(oidc("http://keycloak.identity.svc:8080/jwks"));
    expect(message).to.match(/^ {2}platform:egress\.oidc: is needed for keycloak\.identity\.svc/m);
  });

  it("leads to an API server elsewhere than on port 6443 where the stack says so", () => {
    const apiServer = { to: [{ ipBlock: { cidr: "192.0.2.10/32" } }], ports: [{ port: 443 }] };
    const values = { ...EXISTING, "platform:egress": { apiServer } };
    for (const component of ["gateway", "provisioner"]) {
      const policy = policyOf(component, values);
      expect(letsOut(policy, "192.0.2.10", 443), component).to.equal(true);
      const open = policy.egress?.filter(({ to }) => to === undefined);
      expect(open, component).to.deep.equal([]);
    }
  });
});

describe("a way out", () => {
  it("names its ports and its ends: without them Kubernetes opens all", () => {
    const values = {
      ...EXISTING,
      ...providers({ OPENAI_API_KEY: "k", VLLM_BACKEND_URL: "http://vllm:8000" }),
      "platform:oidc": { issuer: "i", audience: "a", jwksUri: "https://id.example.com/jwks" },
      "platform:database": DATABASE("192.0.2.5"),
      "platform:cache": { url: "redis://admin:CANARY@192.0.2.6" },
      "platform:egress": {
        providers: { to: [{ podSelector: { matchLabels: { app: "vllm" } } }] },
        apiServer: { to: [{ ipBlock: { cidr: "192.0.2.10/32" } }] },
      },
    };
    const policies = ["gateway", "model-gateway", "provisioner"].map((component) =>
      policyOf(component, values),
    );
    for (const { to, ports } of [...policies, agents(values)].flatMap(
      (each) => each?.egress ?? [],
    )) {
      expect(to).not.to.be.oneOf([undefined]).and.not.to.be.empty;
      expect(ports).not.to.be.oneOf([undefined]).and.not.to.be.empty;
    }
  });
});

describe("the setting of a way out", () => {
  for (const [what, rule, key] of [
    ["without an end", { to: [] }, "to"],
    ["to a name", { to: [{ ipBlock: { cidr: "db.example.com" } }] }, "to.0.ipBlock.cidr"],
    ["to nobody in particular", { to: [{}] }, "to.0"],
    ["of another shape", { to: [{ cidr: "192.0.2.0/28" }] }, "to.0.cidr"],
    ["by no port", { to: [{ podSelector: { matchLabels: {} } }], ports: [{ port: 0 }] }, "ports.0"],
  ] as const) {
    it(`is refused ${what}`, () => {
      const message = refusal({ ...DEMO, "platform:egress": { database: rule } });
      expect(message).to.include(`platform:egress.database.${key}`);
    });
  }

  it("is told what there is where it has a field that is none", () => {
    const database = { to: [{ cidr: "192.0.2.0/28" }] };
    const message = refusal({ ...DEMO, "platform:egress": { database } });
    expect(message).to.include("there are ipBlock, namespaceSelector, podSelector");
  });
});
