import type { V1Container, V1PodTemplateSpec } from "@kubernetes/client-node";
import { expect } from "chai";
import { proofJob } from "../../components/sandbox-runtime.ts";
import {
  type Described,
  kubernetesObjects,
  ofKind,
  selects,
  type Workload,
  workloads,
} from "../support/kubernetes-objects.ts";
import { podSecurityViolations } from "../support/pod-security.ts";
import { localStack } from "../support/pulumi-program.ts";

const PROGRAMS = ["platform-gateway", "platform-model-gateway", "platform-provisioner"];
/** What `DRAIN_MS` of our programs is unless it is set. */
const DRAIN_SECONDS = 30;

describe("the platform's pods", () => {
  let all: Described[];
  let pods: Workload[];
  let servers: Workload[];

  before(async () => {
    all = kubernetesObjects((await localStack()).resources);
    pods = workloads(all);
    servers = pods.filter(({ kind }) => kind !== "Job");
  });

  const each = (those: Workload[], check: (container: V1Container, name: string) => void) => {
    for (const { name, template } of those) {
      for (const container of template.spec?.containers ?? []) check(container, name);
    }
  };

  it("are those of all components and of the sandbox's proof", () => {
    expect(pods.map(({ kind, name }) => `${kind} ${name}`)).to.have.members([
      "Deployment platform-gateway",
      "Deployment platform-model-gateway",
      "Deployment platform-provisioner",
      "StatefulSet platform-postgres",
      "Deployment platform-valkey",
      "Deployment platform-phoenix",
      "Job sandbox-proof",
    ]);
  });

  it("meet Pod Security restricted and cannot write their root file system", () => {
    for (const { name, template } of pods) {
      expect(podSecurityViolations(template), name).to.deep.equal([]);
    }
  });

  it("are let in by namespaces that enforce Pod Security restricted", () => {
    const namespaces = all.filter(({ kind }) => kind === "Namespace");
    expect(namespaces.map(({ metadata }) => metadata?.name)).to.have.members([
      "platform",
      "default",
    ]);
    for (const { metadata } of namespaces) {
      expect(metadata?.labels?.["pod-security.kubernetes.io/enforce"]).to.equal("restricted");
    }
  });

  it("ask for memory, CPU and disk, and are bounded in all three", () => {
    each(pods, ({ resources }, name) => {
      expect(resources?.requests, name).to.have.all.keys("cpu", "memory", "ephemeral-storage");
      expect(resources?.limits, name).to.have.all.keys("cpu", "memory", "ephemeral-storage");
    });
  });

  it("ask for less than the 1 CPU that a node of two has to spare, with room for agents", () => {
    const millis = servers.flatMap(({ template }) =>
      (template.spec?.containers ?? []).map(({ resources }) => milli(resources?.requests?.cpu)),
    );
    expect(millis.reduce((sum, each) => sum + each, 0)).to.be.at.most(500);
  });

  it("are waited for longer than a start may take, and for less than Pulumi's ten minutes", () => {
    for (const { name, annotations, template } of servers) {
      const timeout = Number(annotations["pulumi.com/timeoutSeconds"]);
      expect(timeout, name).to.be.lessThan(600);
      for (const { startupProbe } of template.spec?.containers ?? []) {
        const { periodSeconds = 10, failureThreshold = 3 } = startupProbe ?? {};
        expect(timeout, name).to.be.greaterThan(periodSeconds * failureThreshold);
      }
    }
  });

  it("are waited for as long by their Services, which await one that is ready", () => {
    for (const { metadata } of ofKind(all, "Service")) {
      const target = servers.find(({ name }) => name === metadata?.name);
      expect(metadata?.annotations?.["pulumi.com/timeoutSeconds"], metadata?.name)
        .to.be.a("string")
        .and.equal(target?.annotations["pulumi.com/timeoutSeconds"]);
    }
  });

  it("are asked whether they have started, are ready and are alive", () => {
    each(servers, (container, name) => {
      expect(container, name).to.include.all.keys(
        "startupProbe",
        "readinessProbe",
        "livenessProbe",
      );
    });
  });

  describe("of our own programs", () => {
    const ours = () => servers.filter(({ name }) => PROGRAMS.includes(name));

    it("take calls until nobody sends them any, and have time left to finish them", () => {
      expect(ours()).to.have.length(PROGRAMS.length);
      for (const { name, template } of ours()) {
        const [container] = template.spec?.containers ?? [];
        const seconds = container?.lifecycle?.preStop?.sleep?.seconds ?? 0;
        expect(seconds, name).to.be.greaterThan(0);
        expect(template.spec?.terminationGracePeriodSeconds, name).to.be.greaterThan(
          seconds + DRAIN_SECONDS,
        );
      }
    });

    it("are spread over the nodes, and start where there is but one", () => {
      for (const { name, labels, template } of ours()) {
        const [spread] = template.spec?.topologySpreadConstraints ?? [];
        expect(spread, name).to.include({
          topologyKey: "kubernetes.io/hostname",
          whenUnsatisfiable: "ScheduleAnyway",
        });
        expect(selects(spread?.labelSelector?.matchLabels, labels), name).to.equal(true);
      }
    });
  });

  it("are never drained two at a time, and a single one hangs no drain", () => {
    const budgets = ofKind(all, "PodDisruptionBudget");
    for (const { name, labels, namespace } of servers) {
      const mine = budgets.filter(
        ({ metadata, spec }) =>
          metadata?.namespace === namespace && selects(spec?.selector?.matchLabels, labels),
      );
      expect(mine, name).to.have.length(1);
      expect(mine[0]?.spec, name)
        .to.include({ maxUnavailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow" })
        .and.not.have.any.keys("minAvailable");
    }
  });

  it("hold a token of the API server only where a program needs one", () => {
    const holders = pods.filter(
      ({ template }) => template.spec?.automountServiceAccountToken !== false,
    );
    expect(holders.map(({ name }) => name)).to.have.members([
      "platform-gateway",
      "platform-provisioner",
    ]);
  });

  it("are what their Services lead to, at a port that they have", () => {
    for (const { metadata, spec } of ofKind(all, "Service")) {
      const [target, ...more] = servers.filter(({ labels }) => selects(spec?.selector, labels));
      expect(more, metadata?.name).to.deep.equal([]);
      expect(target?.name).to.equal(metadata?.name);
      const ports = target?.template.spec?.containers.flatMap((container) => container.ports ?? []);
      for (const { targetPort, port } of spec?.ports ?? []) {
        const found = ports?.find(({ name }) => name === targetPort);
        expect(found?.containerPort, metadata?.name).to.equal(port);
      }
    }
  });

  it("log in to nothing with a service account of the namespace's default", () => {
    for (const { metadata, ...account } of all.filter(({ kind }) => kind === "ServiceAccount")) {
      expect(account, metadata?.name).to.include({ automountServiceAccountToken: false });
    }
  });
});

describe("the proof of the sandbox", () => {
  const job = proofJob({
    release: "platform",
    runtimeClassName: "gvisor",
    namespace: "platform",
    probeImage: "worker:1",
  }) as Described;

  it("runs on the runtime class of the agents, once, and not for ever", () => {
    expect(job.spec.template.spec.runtimeClassName).to.equal("gvisor");
    expect(job.spec).to.include({ backoffLimit: 0, activeDeadlineSeconds: 100 });
    expect(job.spec.template.spec.restartPolicy).to.equal("Never");
  });

  it("fails unless the kernel says that it is gVisor's", () => {
    const [command] = job.spec.template.spec.containers.map((each: V1Container) => each.command);
    expect(command[2]).to.match(/dmesg \| grep -q "Starting gVisor".*else.*exit 1/);
  });
});

describe("the check of Pod Security", () => {
  it("finds each thing that an unsafe pod does", () => {
    const unsafe: V1PodTemplateSpec = {
      spec: {
        hostNetwork: true,
        hostPID: true,
        hostIPC: true,
        securityContext: { runAsUser: 0, sysctls: [{ name: "a", value: "b" }] },
        volumes: [{ name: "node", hostPath: { path: "/" } }],
        containers: [
          {
            name: "bad",
            ports: [{ containerPort: 1, hostPort: 1 }],
            securityContext: {
              privileged: true,
              runAsUser: 0,
              procMount: "Unmasked",
              capabilities: { add: ["SYS_ADMIN"] },
            },
          },
        ],
        initContainers: [{ name: "first" }],
      },
    };
    const problems = podSecurityViolations(unsafe);
    expect(problems).to.include.members([
      "volume node is hostPath",
      "hostNetwork",
      "hostPID",
      "hostIPC",
      "sysctls",
      "runs as root",
      "bad: privileged",
      "bad: allowPrivilegeEscalation",
      "bad: runAsNonRoot is not set",
      "bad: runs as root",
      "bad: no seccomp profile",
      "bad: keeps capabilities",
      "bad: adds SYS_ADMIN",
      "bad: procMount",
      "bad: hostPort",
      "first: runAsNonRoot is not set",
    ]);
  });
});

function milli(cpu = ""): number {
  return cpu.endsWith("m") ? Number(cpu.slice(0, -1)) : Number(cpu) * 1000;
}
