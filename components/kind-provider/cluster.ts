import { access, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { UserError } from "../../runtime/common/errors.ts";
import { checkPortFree } from "../../runtime/embedded/machine-checks.ts";
import { CommandFailed, run } from "./commands.ts";
import { checkDocker } from "./host-checks.ts";
import { claimNetwork, releaseNetwork } from "./network.ts";
import type { ResourceKind } from "./resources.ts";

const inputs = z.object({
  name: z.string(),
  /** kind's own configuration, YAML; its hash is among the node's labels. */
  config: z.string(),
  configHash: z.string(),
  nodeImage: z.string(),
  hostPort: z.number(),
  /** A file of our own: the user's kubeconfig and its current context stay as they are. */
  kubeconfigPath: z.string(),
});
export type ClusterInputs = z.output<typeof inputs>;

export interface ClusterState extends ClusterInputs {
  kubeconfig: string;
  /** The node's container id: another one is another cluster. */
  nodeId: string;
}

/** The node label by which a cluster is known to be of one configuration. */
export const CONFIG_HASH_LABEL = "platform.dev/config-hash";

const READY_TIMEOUT = "180s";

/** A kind cluster of one node. */
export const cluster: ResourceKind<ClusterInputs, ClusterState> = {
  inputs,
  replaces: ["name", "config", "configHash", "nodeImage", "hostPort"],

  async create(wanted) {
    await checkDocker();
    if (await isHalfMade(wanted)) await removeCluster(wanted);
    if (await exists(wanted.name)) {
      await adopt(wanted);
    } else {
      await checkPortFree(wanted.hostPort);
      await createCluster(wanted);
    }
    return { id: wanted.name, state: await stateOf(wanted) };
  },

  async read(state) {
    if (!(await exists(state.name))) return undefined;
    await startNode(state.name);
    return stateOf(state);
  },

  async update(_state, wanted) {
    return stateOf(wanted);
  },

  async delete(state) {
    await removeCluster(state);
    await releaseNetwork(networkMarkerOf(state));
  },
};

/** The container that is the cluster's node. */
export function nodeName(clusterName: string): string {
  return `${clusterName}-control-plane`;
}

async function exists(name: string): Promise<boolean> {
  const names = await run("kind", ["get", "clusters"]);
  return names.split("\n").includes(name);
}

async function createCluster(wanted: ClusterInputs): Promise<void> {
  const { name, nodeImage, kubeconfigPath } = wanted;
  await mkdir(dirname(kubeconfigPath), { recursive: true });
  await claimNetwork(networkMarkerOf(wanted));
  await writeFile(markerOf(wanted), "");
  try {
    await run(
      "kind",
      [
        ...["create", "cluster", "--name", name, "--image", nodeImage],
        ...["--kubeconfig", kubeconfigPath, "--wait", READY_TIMEOUT, "--config", "-"],
      ],
      wanted.config,
    );
  } catch (error) {
    // Half a cluster would stand in the way of the next try.
    await removeCluster(wanted);
    throw error;
  } finally {
    await rm(markerOf(wanted), { force: true });
  }
}

/** Stands there while kind makes a cluster: one found beside it was never finished. */
function markerOf({ kubeconfigPath }: ClusterInputs): string {
  return `${kubeconfigPath}.unfinished`;
}

/** Stands there as long as kind's network is one that came with our cluster. */
function networkMarkerOf({ kubeconfigPath }: ClusterInputs): string {
  return `${kubeconfigPath}.network`;
}

async function isHalfMade(wanted: ClusterInputs): Promise<boolean> {
  try {
    await access(markerOf(wanted));
    return true;
  } catch {
    // Nobody was killed while making it.
    return false;
  }
}

async function removeCluster({ name, kubeconfigPath }: ClusterInputs): Promise<void> {
  await run("kind", ["delete", "cluster", "--name", name, "--kubeconfig", kubeconfigPath]);
  await rm(kubeconfigPath, { force: true });
}

/** Takes over a cluster that is there, if it is one that we would have made. */
async function adopt(wanted: ClusterInputs): Promise<void> {
  await startNode(wanted.name);
  await writeKubeconfig(wanted);
  const hash = await run("kubectl", [
    ...["--kubeconfig", wanted.kubeconfigPath, "get", "node", nodeName(wanted.name)],
    ...["-o", `jsonpath={.metadata.labels.${CONFIG_HASH_LABEL.replaceAll(".", "\\.")}}`],
  ]);
  if (hash === wanted.configHash) return;
  await rm(wanted.kubeconfigPath, { force: true });
  throw new UserError(
    "cluster_exists",
    `There is a kind cluster ${wanted.name} already, with another configuration.`,
    `If it may go: kind delete cluster --name ${wanted.name}. Else choose another platform:clusterName.`,
  );
}

/** A node that was stopped, e.g. with its laptop, is started. */
async function startNode(name: string): Promise<void> {
  const container = nodeName(name);
  const running = await run("docker", ["inspect", "-f", "{{.State.Running}}", container]);
  if (running.trim() === "true") return;
  await run("docker", ["start", container]);
  await untilReady(container);
}

async function untilReady(container: string): Promise<void> {
  const kubectl = ["exec", container, "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"];
  const deadline = Date.now() + 120_000;
  while (true) {
    try {
      await run("docker", [...kubectl, "wait", "--for=condition=Ready", "node", "--all"]);
      return;
    } catch (error) {
      // The API server is on its way up.
      if (!(error instanceof CommandFailed) || Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
  }
}

async function writeKubeconfig({ name, kubeconfigPath }: ClusterInputs): Promise<void> {
  await mkdir(dirname(kubeconfigPath), { recursive: true });
  await run("kind", ["export", "kubeconfig", "--name", name, "--kubeconfig", kubeconfigPath]);
}

async function stateOf(wanted: ClusterInputs): Promise<ClusterState> {
  await writeKubeconfig(wanted);
  const kubeconfig = await run("kind", ["get", "kubeconfig", "--name", wanted.name]);
  const nodeId = await run("docker", ["inspect", "-f", "{{.Id}}", nodeName(wanted.name)]);
  return { ...wanted, kubeconfig, nodeId: nodeId.trim() };
}
