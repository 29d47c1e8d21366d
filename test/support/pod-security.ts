import type { V1Container, V1PodSpec, V1PodTemplateSpec, V1Volume } from "@kubernetes/client-node";

/** Volumes that Pod Security `restricted` allows. */
const VOLUMES: readonly string[] = [
  "configMap",
  "csi",
  "downwardAPI",
  "emptyDir",
  "ephemeral",
  "persistentVolumeClaim",
  "projected",
  "secret",
] satisfies (keyof V1Volume)[];
const SECCOMP = ["RuntimeDefault", "Localhost"];

/**
 * What Pod Security `restricted` would refuse of a pod, by the Pod Security Standards of Kubernetes;
 * and a root file system that can be written, which it leaves open.
 */
export function podSecurityViolations(template: V1PodTemplateSpec): string[] {
  const { spec } = template;
  if (spec === undefined) return ["there is no pod"];
  const containers = [
    ...(spec.initContainers ?? []),
    ...spec.containers,
    ...((spec.ephemeralContainers ?? []) as V1Container[]),
  ];
  return [
    ...podViolations(spec),
    ...containers.flatMap((container) =>
      containerViolations(spec, container).map((problem) => `${container.name}: ${problem}`),
    ),
  ];
}

function podViolations(spec: V1PodSpec): string[] {
  const volumes = (spec.volumes ?? []).flatMap(({ name, ...sources }) =>
    Object.keys(sources)
      .filter((source) => !VOLUMES.includes(source))
      .map((source) => `volume ${name} is ${source}`),
  );
  return [
    ...volumes,
    ...when(spec.hostNetwork, "hostNetwork"),
    ...when(spec.hostPID, "hostPID"),
    ...when(spec.hostIPC, "hostIPC"),
    ...when(spec.securityContext?.sysctls?.length, "sysctls"),
    ...when(spec.securityContext?.runAsUser === 0, "runs as root"),
  ];
}

function containerViolations(spec: V1PodSpec, container: V1Container): string[] {
  const pod = spec.securityContext;
  const own = container.securityContext;
  const seccomp = own?.seccompProfile?.type ?? pod?.seccompProfile?.type ?? "";
  const added = own?.capabilities?.add ?? [];
  return [
    ...when(own?.privileged, "privileged"),
    ...when(own?.allowPrivilegeEscalation !== false, "allowPrivilegeEscalation"),
    ...when((own?.runAsNonRoot ?? pod?.runAsNonRoot) !== true, "runAsNonRoot is not set"),
    ...when(own?.runAsUser === 0, "runs as root"),
    ...when(!SECCOMP.includes(seccomp), "no seccomp profile"),
    ...when(!own?.capabilities?.drop?.includes("ALL"), "keeps capabilities"),
    ...when(
      added.some((name) => name !== "NET_BIND_SERVICE"),
      `adds ${added}`,
    ),
    ...when(own?.procMount !== undefined && own.procMount !== "Default", "procMount"),
    ...when(
      container.ports?.some(({ hostPort }) => hostPort),
      "hostPort",
    ),
    ...when(own?.readOnlyRootFilesystem !== true, "the root file system can be written"),
  ];
}

function when(found: unknown, problem: string): string[] {
  return found ? [problem] : [];
}
