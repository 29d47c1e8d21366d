import { Readable } from "node:stream";
import { z } from "zod";
import { nodeReference } from "../node-reference.ts";
import { nodeName } from "./cluster.ts";
import { CommandFailed, output, pipe, run } from "./commands.ts";
import { pullIfMissing } from "./docker-images.ts";
import type { ResourceKind } from "./resources.ts";
import { chainIds, thinArchive } from "./thin-archive.ts";

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
  const node = nodeName(clusterName);
  for (const image of missing) await pullIfMissing(image);
  for (const image of missing) {
    const reference = nodeReference(image);
    if (reference !== image) await run("docker", ["tag", image, reference]);
  }
  const whole: string[] = [];
  for (const reference of missing.map(nodeReference)) {
    const isFew = missing.length <= MOST_THIN_IMAGES;
    if (!isFew || !(await loadThin(node, reference))) whole.push(reference);
  }
  // An archive of this one platform: `kind load` asks for all of them, which Docker's containerd
  // store does not have. Layers that several images share go over once.
  if (whole.length > 0) await pipe(["docker", ["save", ...whole]], ["docker", importInto(node)]);
}

/** `--local`: containerd's transfer service takes twice the time. */
function importInto(node: string): string[] {
  return ["exec", "-i", node, "ctr", "-n", "k8s.io", "images", "import", "--local", "-"];
}

/** Loads what a node lacks of an image of which it has most. False: it has to be loaded as a whole. */
async function loadThin(node: string, image: string): Promise<boolean> {
  const unpacked = await unpackedLayers(node);
  const inspected = await run("docker", [
    "image",
    "inspect",
    "--format",
    "{{json .RootFS.Layers}}",
    image,
  ]);
  const diffIds = layerDigests.parse(JSON.parse(inspected));
  const chains = chainIds(diffIds);
  const layers = diffIds.map((diffId, position) => ({
    diffId,
    isPresent: unpacked.has(chains[position] ?? ""),
  }));
  const missing = layers.filter(({ isPresent }) => !isPresent).length;
  if (missing === layers.length || (await topBytes(image, missing)) > MOST_THIN_BYTES) return false;
  try {
    const archive = await output("docker", ["save", image], (saved) =>
      thinArchive(saved, fullName(image), layers),
    );
    if (archive === undefined) return false;
    await run("docker", importInto(node), Readable.from([archive]));
    return true;
  } catch {
    // The node may have dropped a layer meanwhile. What else is wrong, the whole image will tell.
    return false;
  }
}

const layerDigests = z.array(z.string());
/** Each is an archive of its own: of many, the layers that they share go over once. */
const MOST_THIN_IMAGES = 2;
/** Beyond this an archive of all that is missing, in one go, is not slower. */
const MOST_THIN_BYTES = 16 * 1024 ** 2;

/** Names of the layers that the node has unpacked. */
async function unpackedLayers(node: string): Promise<Set<string>> {
  const listed = await run("docker", ["exec", node, "ctr", "-n", "k8s.io", "snapshots", "ls"]);
  return new Set(listed.split("\n").map((line) => line.split(/\s/, 1)[0] ?? ""));
}

/** The size of an image's topmost layers. */
async function topBytes(image: string, layers: number): Promise<number> {
  const sizes = await run("docker", ["history", "--human=false", "--format", "{{.Size}}", image]);
  const filled = sizes
    .split("\n")
    .map(Number)
    .filter((size) => size > 0);
  return filled.slice(0, layers).reduce((sum, size) => sum + size, 0);
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
