import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { readStackConfiguration } from "../../components/stack-configuration.ts";
import {
  type Described,
  kubernetesObjects,
  type Workload,
  workloads,
} from "../support/kubernetes-objects.ts";
import type { Registered } from "../support/pulumi-monitor.ts";
import { asText, CHECKOUT, configOf, runProgram } from "../support/pulumi-program.ts";

const CA = readFileSync(join(CHECKOUT, "test/fixtures/components/ca.pem"), "utf8");
const VARIABLE = "NODE_EXTRA_CA_CERTS";
const MARK = "platform.dev/trusted-certificates";
const PROGRAMS = ["platform-gateway", "platform-model-gateway", "platform-provisioner"];

const configured = (trustedCertificates: string) =>
  asText({ "platform:demo": true, "platform:trustedCertificates": trustedCertificates });

describe("the certificates of own CAs", () => {
  let resources: Registered[];
  let objects: Described[];
  const stackWith = async (pem: string) =>
    (await runProgram({ ...configOf("Pulumi.local.yaml"), ...configured(pem) })).resources;
  const marksOf = (pods: Workload[]) =>
    pods.map(({ template }) => template.metadata?.annotations?.[MARK]);
  const programs = (all: Described[]) =>
    workloads(all).filter(({ name }) => PROGRAMS.includes(name));

  before(async () => {
    resources = await stackWith(CA);
    objects = kubernetesObjects(resources);
  });

  it("are where our programs' Node looks for them, and in no other pod", () => {
    const holders = workloads(objects).filter(({ template }) =>
      JSON.stringify(template).includes("trusted-certificates"),
    );
    expect(holders.map(({ name }) => name)).to.have.members(PROGRAMS);
    for (const { name, namespace, template } of holders) {
      const [container] = template.spec?.containers ?? [];
      const path = container?.env?.find((each) => each.name === VARIABLE)?.value ?? "";
      const mount = container?.volumeMounts?.find(({ mountPath }) => path.startsWith(mountPath));
      const volume = template.spec?.volumes?.find((each) => each.name === mount?.name);
      const map = objects.find(
        ({ kind, metadata }) =>
          kind === "ConfigMap" &&
          metadata?.name === volume?.configMap?.name &&
          metadata?.namespace === namespace,
      ) as { data?: Record<string, string> } | undefined;
      expect(mount?.readOnly, name).to.equal(true);
      expect(map?.data?.[path.slice((mount?.mountPath.length ?? 0) + 1)], name).to.equal(CA);
    }
  });

  it("go to the agents by their chart", () => {
    const charts = resources.filter(({ type }) => type === "kubernetes:helm.sh/v4:Chart");
    expect(charts).not.to.deep.equal([]);
    for (const { inputs } of charts) {
      expect(inputs.values).to.deep.include({ trustedCertificates: CA });
    }
  });

  it("roll the programs' pods when they change", async () => {
    const others = marksOf(programs(kubernetesObjects(await stackWith(`${CA}${CA}`))));
    const marks = marksOf(programs(objects));
    expect(marks).to.have.length(PROGRAMS.length);
    for (const mark of marks) expect(mark).to.be.a("string").and.not.be.oneOf(others);
  });

  it("may be several, with words between them", () => {
    const bundle = `Ours - the first\n${CA}\nOurs, the second\n${CA}`;
    expect(readStackConfiguration(configured(bundle)).trustedCertificates).to.equal(bundle);
  });

  for (const [what, pem, says] of [
    ["a path", "/etc/ssl/ca.pem", /has no certificate in PEM/],
    ["half of one", CA.slice(0, 300), /has no certificate in PEM/],
    ["another that can't be read", `${CA}${CA.replace("MIIB", "AAAA")}`, /can't be read, number 2/],
    ["a key among them", `${CA}-----BEGIN PRIVATE KEY-----\nCANARY\n`, /above all a private key/],
  ] as const) {
    it(`are refused with ${what}, which is not shown`, () => {
      expect(() => readStackConfiguration(configured(pem)))
        .to.throw(/^ {2}platform:trustedCertificates: /m)
        .with.property("message")
        .that.matches(says)
        .and.does.not.include("CANARY");
    });
  }
});
