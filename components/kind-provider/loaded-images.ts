import { z } from "zod";
import { nodeReference } from "../node-reference.ts";
import { nodeName } from "./cluster.ts";
import { CommandFailed, pipe, run } from "./commands.ts";
import { pullIfMissing } from "./docker-images.ts";
import type { ResourceKind } from "./resources.ts";

const inputs = z.object({
  clusterName: z.string(),
  /** The node's container id: a cluster made anew has no image yet. */
  nodeId: z.string(),
  /** As Docker knows them, e.g. `postgres:17.6@sha256:…` or tags that name their content. */
  images: z.array(z.string()),
});
export type LoadedImagesInputs = z.output<typeof inputs>;

/**
 * Images that go through the local Docker into the node: nothing is pulled that is there, nothing
 * is loaded twice, and layers that images share go over once.
 */
export const loadedImages: ResourceKind<LoadedImagesInputs, LoadedImagesInputs> = {
  inputs,
  replaces: ["clusterName", "nodeId"],

  async create(wanted) {
    await loadMissing(wanted);
    return { id: `${wanted.clusterName}/images`, state: wanted };
  },

  async read(state) {
    const present = await imagesInNode(state.clusterName);
    if (present === undefined) return undefined;
    const images = state.images.filter((image) => present.has(fullName(nodeReference(image))));
    return { ...state, images };
  },

  async update(_state, wanted) {
    await loadMissing(wanted);
    return wanted;
  },

  // Images go with the node; on a node that stays they are the kubelet's to collect.
  async delete() {},
};

async function loadMissing({ clusterName, images }: LoadedImagesInputs): Promise<void> {
  const present = (await imagesInNode(clusterName)) ?? new Set();
  const missing = images.filter((image) => !present.has(fullName(nodeReference(image))));
  if (missing.length === 0) return;
  for (const image of missing) await pullIfMissing(image);
  for (const image of missing) {
    const reference = nodeReference(image);
    if (reference !== image) await run("docker", ["tag", image, reference]);
  }
  // An archive of this one platform: `kind load` asks for all of them, which Docker's containerd
  // store does not have. `--local`: containerd's transfer service takes twice the time.
  await pipe(
    ["docker", ["save", ...missing.map(nodeReference)]],
    [
      "docker",
      [
        "exec",
        "-i",
        nodeName(clusterName),
        "ctr",
        "-n",
        "k8s.io",
        "images",
        "import",
        "--local",
        "-",
      ],
    ],
  );
}

/** Full names of the images in the node; undefined if there is no node. */
async function imagesInNode(clusterName: string): Promise<Set<string> | undefined> {
  try {
    const names = await run("docker", [
      ...["exec", nodeName(clusterName), "ctr", "-n", "k8s.io", "images", "ls", "-q"],
    ]);
    return new Set(names.split("\n"));
  } catch (error) {
    if (error instanceof CommandFailed && /No such container/i.test(error.stderr)) return undefined;
    throw error;
  }
}

/** `postgres:17` is `docker.io/library/postgres:17` to containerd. */
function fullName(reference: string): string {
  const [first = "", ...rest] = reference.split("/");
  if (rest.length === 0) return `docker.io/library/${reference}`;
  return /[.:]|^localhost$/.test(first) ? reference : `docker.io/${reference}`;
}
