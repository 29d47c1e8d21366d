import { spawn } from "node:child_process";
import { cp, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  type KubernetesObject,
  loadAllYaml,
  loadYaml,
  type V1Deployment,
  type V1HorizontalPodAutoscaler,
  type V1NetworkPolicy,
  type V1PodDisruptionBudget,
  type V1Service,
  type V1ServiceAccount,
} from "@kubernetes/client-node";

const CHART = resolve(import.meta.dirname, "../../charts/platform-agent");

/** What a user has to write at least. */
export const REQUIRED_VALUES = {
  graphId: "assistant",
  sharedRoute: { host: "agents.example.com" },
  image: { repository: "registry.example.com/agents/assistant", tag: "1.4.0" },
  platform: { releaseName: "platform" },
};

/** A route as the chart writes it; the Kubernetes client has no type for it. */
export interface HttpRoute extends KubernetesObject {
  spec: {
    parentRefs: { name: string; namespace: string }[];
    hostnames: string[];
    rules: {
      matches: Record<string, { type: string; name: string; value: string }[]>[];
      backendRefs: { name: string; port: number }[];
    }[];
  };
}

interface Kinds {
  Deployment: V1Deployment;
  Service: V1Service;
  ServiceAccount: V1ServiceAccount;
  NetworkPolicy: V1NetworkPolicy;
  PodDisruptionBudget: V1PodDisruptionBudget;
  HorizontalPodAutoscaler: V1HorizontalPodAutoscaler;
  HTTPRoute: HttpRoute;
}

/** The objects of one release. */
export interface Rendered {
  all: KubernetesObject[];
  /** The only object of its kind. */
  one<Kind extends keyof Kinds>(kind: Kind): Kinds[Kind];
  text: string;
}

export interface Helm {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** `helm template` with the required values and these; @throws where helm refuses them. */
export async function render(
  values: object = {},
  release = "assistant",
  namespace = "agents",
): Promise<Rendered> {
  const result = await template(values, release, namespace);
  if (result.code !== 0) throw new Error(result.stderr);
  const all = loadAllYaml(result.stdout).filter((document) => document !== null);
  return {
    all,
    text: result.stdout,
    one<Kind extends keyof Kinds>(kind: Kind) {
      const [object, ...more] = all.filter((candidate) => candidate.kind === kind);
      if (object === undefined || more.length > 0) throw new Error(`Not one ${kind}.`);
      return object as Kinds[Kind];
    },
  };
}

/** What helm says to values that it refuses. */
export async function refusal(values: object, release = "assistant"): Promise<string> {
  const result = await template(values, release, "agents");
  if (result.code === 0) throw new Error("The values should have been refused.");
  return result.stderr;
}

/**
 * The notes that a user reads after the installation. Helm shows them only with a cluster in reach,
 * so a copy of the chart renders them as a document.
 */
export async function notes(values: object = {}): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "platform-chart-"));
  try {
    await cp(CHART, directory, { recursive: true });
    await rename(join(directory, "templates/NOTES.txt"), join(directory, "notes.txt"));
    await writeFile(
      join(directory, "templates/notes.yaml"),
      'text: {{ tpl (.Files.Get "notes.txt") . | toJson }}',
    );
    const { code, stdout, stderr } = await withValues(values, (file) =>
      helm(["template", "assistant", directory, "-s", "templates/notes.yaml", "-f", file]),
    );
    if (code !== 0) throw new Error(stderr);
    return loadYaml<{ text: string }>(stdout).text;
  } finally {
    await rm(directory, { recursive: true });
  }
}

export function lint(values: object): Promise<Helm> {
  return withValues(values, (file) => helm(["lint", "--strict", CHART, "-f", file]));
}

function template(values: object, release: string, namespace: string): Promise<Helm> {
  return withValues(values, (file) =>
    helm(["template", release, CHART, "--namespace", namespace, "-f", file]),
  );
}

async function withValues(values: object, use: (file: string) => Promise<Helm>): Promise<Helm> {
  const directory = await mkdtemp(join(tmpdir(), "platform-chart-"));
  try {
    const file = join(directory, "values.json");
    await writeFile(file, JSON.stringify({ ...REQUIRED_VALUES, ...values }));
    return await use(file);
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** Runs helm, from `HELM_PATH` or PATH, without any cluster in reach. */
function helm(args: string[]): Promise<Helm> {
  return new Promise((resolveResult, reject) => {
    const child = spawn(process.env.HELM_PATH ?? "helm", args, {
      env: { ...process.env, KUBECONFIG: "/nonexistent" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const result: Helm = { code: null, stdout: "", stderr: "" };
    child.stdout.on("data", (chunk) => {
      result.stdout += chunk;
    });
    child.stderr.on("data", (chunk) => {
      result.stderr += chunk;
    });
    child.once("error", (error: NodeJS.ErrnoException) =>
      reject(
        error.code === "ENOENT"
          ? new Error("The chart tests need helm 3 on PATH, or named with HELM_PATH.")
          : error,
      ),
    );
    child.once("close", (code) => resolveResult({ ...result, code }));
  });
}
