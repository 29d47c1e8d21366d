import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { UserError } from "../../runtime/common/errors.ts";
import { checkPortFree } from "../../runtime/embedded/machine-checks.ts";
import { CommandFailed, run } from "./commands.ts";
import { pullIfMissing } from "./docker-images.ts";
import { checkDocker } from "./host-checks.ts";
import { isThere } from "./is-there.ts";
import { claimNetwork, releaseNetwork } from "./network.ts";
import type { ResourceKind } from "./resources.ts";

export const clusterInputs = z.object({
  name: z.string(),
  /** kind's own configuration, YAML; its hash is among the node's labels. */
  config: z.string(),
  configHash: z.string(),
  nodeImage: z.string(),
  hostPort: z.number(),
  /** A file of our own: the user's kubeconfig and its current context stay as they are. */
  kubeconfigPath: z.string(),
});
export type ClusterInputs = z.output<typeof clusterInputs>;

export interface ClusterState extends ClusterInputs {
  kubeconfig: string;
  /** The node's container id: another one is another cluster. */
  nodeId: string;
}

/** The node label by which a cluster is known to be of one configuration. */
export const CONFIG_HASH_LABEL = "platform.dev/config-hash";

/**
 * `true` in the environment of a preview that only asks what would become of a stack if its cluster were
 * made anew.
 */
export const REPLACEMENT_PREVIEW = "PLATFORM_REPLACEMENT_PREVIEW";

const PLATFORM_NAMESPACE = "platform";
const READY_TIMEOUT = "180s";

/**
 * Deletes a cluster and all in it where a change needs another one, which the next update makes.
 *
 * @param goOn Asked at the last moment; throws where the user has changed their mind.
 * @returns Whether it did.
 * @throws UserError before anything is lost, where that one could not be made.
 */
export async function makeWay(
  before: ClusterInputs,
  wanted: ClusterInputs,
  goOn: () => void,
): Promise<boolean> {
  if (changesOf(before, wanted).length === 0) return false;
  await checkDocker();
  if (wanted.hostPort !== before.hostPort) await checkPortFree(wanted.hostPort);
  if (wanted.name !== before.name && (await clusterExists(wanted.name))) {
    throw stranger(wanted.name, "beside the one to be replaced");
  }
  await pullIfMissing(wanted.nodeImage);
  goOn();
  await removeWithNetwork(before);
  return true;
}

/** A kind cluster of one node. */
export const cluster: ResourceKind<ClusterInputs, ClusterState> = {
  inputs: clusterInputs,
  replaces: ["name", "config", "configHash", "nodeImage", "hostPort"],

  async check(wanted, before) {
    await checkDocker();
    if (process.env[REPLACEMENT_PREVIEW] === "true") return;
    if (before === undefined) return await checkNew(wanted);
    const changes = changesOf(before, wanted);
    if (changes.length > 0) throw refuseReplacement(before, changes);
    if (!(await clusterExists(before.name))) throw gone(before.name);
    if (!(await nodeRuns(before.name))) throw stopped(before.name);
  },

  async create(wanted) {
    const found = await find(wanted);
    if (found === "unfinished") await removeCluster(wanted);
    if (found === "empty") await startNode(wanted.name);
    else await createCluster(wanted);
    return { id: wanted.name, state: await stateOf(wanted) };
  },

  async read(state) {
    if (!(await clusterExists(state.name))) return undefined;
    await startNode(state.name);
    return stateOf(state);
  },

  async update(_state, wanted) {
    return stateOf(wanted);
  },

  delete: removeWithNetwork,
};

/** The container that is the cluster's node. */
export function nodeName(clusterName: string): string {
  return `${clusterName}-control-plane`;
}

async function checkNew(wanted: ClusterInputs): Promise<void> {
  if (!(await clusterExists(wanted.name))) await checkPortFree(wanted.hostPort);
}

/** Another cluster begins with an empty database: never by the way, be it that a port was forgotten. */
function refuseReplacement(before: ClusterInputs, changes: string[]): UserError {
  return new UserError(
    "cluster_replacement",
    `The kind cluster ${before.name} would be made anew and all in it, its database too, be lost: ${changes.join(", ")}.`,
    `Give the old value again. If it may be lost: ./install.sh --replace-cluster, or kind delete cluster --name ${before.name} and then pulumi up.`,
  );
}

/** Pulumi's state has it and all that was in it: an update would leave out what is not there. */
function gone(name: string): UserError {
  return new UserError(
    "cluster_gone",
    `The kind cluster ${name} is gone, and Pulumi does not know.`,
    "Make it and all in it anew: ./install.sh, or pulumi up --refresh.",
  );
}

/** Kubernetes' objects could not be reached, and an update would take them for gone. */
function stopped(name: string): UserError {
  return new UserError(
    "cluster_stopped",
    `The node of the kind cluster ${name} is stopped.`,
    `Start it: ./install.sh, or docker start ${nodeName(name)}.`,
  );
}

/** What makes another cluster of it, for people. */
function changesOf(before: ClusterInputs, wanted: ClusterInputs): string[] {
  const changes = (["name", "nodeImage", "hostPort"] as const)
    .filter((field) => before[field] !== wanted[field])
    .map((field) => `${field} changes from ${before[field]} to ${wanted[field]}`);
  const isOther = before.configHash !== wanted.configHash;
  return changes.length === 0 && isOther ? ["kind's configuration changes"] : changes;
}

/**
 * What there is of a cluster: nothing, one that we were killed over, or one that was finished without
 * Pulumi having learnt of it, which is empty.
 *
 * @throws UserError where it is somebody's: another one's, or one with a platform in it whose passwords
 *   nobody here knows.
 */
async function find(wanted: ClusterInputs): Promise<"none" | "unfinished" | "empty"> {
  if (!(await clusterExists(wanted.name))) return "none";
  if ((await isThere(markerOf(wanted))) && (await hasPort(wanted))) return "unfinished";
  // It is written by kind when it makes a cluster, and goes with it.
  if (!(await isThere(wanted.kubeconfigPath)))
    throw stranger(wanted.name, "which was not made from here");
  await startNode(wanted.name);
  const get = (...args: string[]) =>
    run("kubectl", ["--kubeconfig", wanted.kubeconfigPath, "get", ...args]);
  const hash = await get(
    ...["node", nodeName(wanted.name)],
    ...["-o", `jsonpath={.metadata.labels.${CONFIG_HASH_LABEL.replaceAll(".", "\\.")}}`],
  );
  if (hash !== wanted.configHash) throw stranger(wanted.name, "with another configuration");
  const platform = await get("namespace", PLATFORM_NAMESPACE, "--ignore-not-found", "-o", "name");
  if (platform.trim() !== "")
    throw stranger(wanted.name, "with a platform that this stack knows nothing of");
  return "empty";
}

function stranger(name: string, which: string): UserError {
  return new UserError(
    "cluster_exists",
    `There is a kind cluster ${name} already, ${which}.`,
    `If it may go: kind delete cluster --name ${name}. Else choose another name: ./install.sh --cluster-name, or platform:clusterName.`,
  );
}

/** Whether kind has a cluster of this name, whoever made it. */
export async function clusterExists(name: string): Promise<boolean> {
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
    // Half a cluster would stand in the way of the next try; a whole one is somebody else's.
    if (!(error instanceof CommandFailed && /already exist/i.test(error.stderr))) {
      await removeCluster(wanted);
    }
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

/** Whether the cluster's node is one with our port: one of the same name may be somebody else's. */
async function hasPort({ name, hostPort }: ClusterInputs): Promise<boolean> {
  const format = "{{range .HostConfig.PortBindings}}{{range .}}{{println .HostPort}}{{end}}{{end}}";
  const ports = await run("docker", ["inspect", "-f", format, nodeName(name)]);
  return ports.split("\n").includes(String(hostPort));
}

async function removeWithNetwork(wanted: ClusterInputs): Promise<void> {
  await removeCluster(wanted);
  await releaseNetwork(networkMarkerOf(wanted));
}

async function removeCluster({ name, kubeconfigPath }: ClusterInputs): Promise<void> {
  await run("kind", ["delete", "cluster", "--name", name, "--kubeconfig", kubeconfigPath]);
  await rm(kubeconfigPath, { force: true });
}

/** A node that was stopped, e.g. with its laptop, is started. */
async function startNode(name: string): Promise<void> {
  if (await nodeRuns(name)) return;
  const container = nodeName(name);
  await run("docker", ["start", container]);
  await untilReady(container);
}

async function nodeRuns(name: string): Promise<boolean> {
  const running = await run("docker", ["inspect", "-f", "{{.State.Running}}", nodeName(name)]);
  return running.trim() === "true";
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
