import { z } from "zod";
import { UserError } from "../../runtime/common/errors.ts";
import { nodeName } from "./cluster.ts";
import { CommandFailed, pipe, run } from "./commands.ts";
import type { ResourceKind } from "./resources.ts";

const inputs = z.object({
  clusterName: z.string(),
  /** The node's container id: a cluster made anew has no image yet. */
  nodeId: z.string(),
  /** As Docker knows it, e.g. `postgres:17.6@sha256:…` or a tag that names its content. */
  image: z.string(),
});
export type LoadedImageInputs = z.output<typeof inputs>;

export interface LoadedImageState extends LoadedImageInputs {
  /** What pods have to say to get exactly this image. */
  reference: string;
}

/** An image that goes through the local Docker into the node: nothing is pulled that is there. */
export const loadedImage: ResourceKind<LoadedImageInputs, LoadedImageState> = {
  inputs,
  replaces: ["clusterName", "nodeId", "image"],

  async create(wanted) {
    const reference = nodeReference(wanted.image);
    if (!(await isInNode(wanted.clusterName, reference))) {
      await pullIfMissing(wanted.image);
      await load(wanted, reference);
    }
    return { id: reference, state: { ...wanted, reference } };
  },

  async read(state) {
    return (await isInNode(state.clusterName, state.reference)) ? state : undefined;
  },

  async update(state) {
    return state;
  },

  // Images go with the node; on a node that stays they are the kubelet's to collect.
  async delete() {},
};

/**
 * A reference by digest has no name inside a node that it was loaded into, so it gets a tag that
 * holds the digest.
 */
export function nodeReference(image: string): string {
  const [name = image, digest] = image.split("@sha256:");
  if (digest === undefined) return image;
  const tagged = /:[\w.-]+$/.test(name) ? name : `${name}:latest`;
  return `platform.local/${tagged}-${digest.slice(0, 12)}`;
}

async function isInNode(clusterName: string, reference: string): Promise<boolean> {
  const names = await inNode(clusterName, ["images", "ls", "-q"]);
  const wanted = fullName(reference);
  return names.split("\n").includes(wanted);
}

/** `postgres:17` is `docker.io/library/postgres:17` to containerd. */
function fullName(reference: string): string {
  const [first = "", ...rest] = reference.split("/");
  if (rest.length === 0) return `docker.io/library/${reference}`;
  return /[.:]|^localhost$/.test(first) ? reference : `docker.io/${reference}`;
}

async function pullIfMissing(image: string): Promise<void> {
  try {
    await run("docker", ["image", "inspect", "--format", "{{.Id}}", image]);
    return;
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
  }
  try {
    await run("docker", ["pull", "--quiet", image]);
  } catch (error) {
    throw new UserError(
      "image_pull",
      `The image ${image} is not in Docker and can't be pulled: ${(error as Error).message}`,
      "Check the network, load the image into Docker, or name another one in platform:images.",
    );
  }
}

async function load(wanted: LoadedImageInputs, reference: string): Promise<void> {
  if (reference !== wanted.image) await run("docker", ["tag", wanted.image, reference]);
  // An archive of this one platform: `kind load` asks for all of them, which Docker's containerd
  // store does not have.
  await pipe(
    ["docker", ["save", reference]],
    [
      "docker",
      ["exec", "-i", nodeName(wanted.clusterName), "ctr", "-n", "k8s.io", "images", "import", "-"],
    ],
  );
}

function inNode(clusterName: string, ctr: string[]): Promise<string> {
  return run("docker", ["exec", nodeName(clusterName), "ctr", "-n", "k8s.io", ...ctr]);
}
