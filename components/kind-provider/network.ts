import { rm, writeFile } from "node:fs/promises";
import { run } from "./commands.ts";
import { isThere } from "./is-there.ts";

/** The Docker network that kind makes for all its clusters and leaves behind. */
const NETWORK = process.env.KIND_EXPERIMENTAL_DOCKER_NETWORK ?? "kind";

/**
 * To be called before kind makes a cluster: remembers in a file that the network was not there, so that
 * it is ours to remove. A network that somebody else set up, e.g. for a subnet of their own, stays.
 */
export async function claimNetwork(markerFile: string): Promise<void> {
  if (!(await exists())) await writeFile(markerFile, "");
}

/** Removes the network if it is ours and no container, running or not, belongs to it. */
export async function releaseNetwork(markerFile: string): Promise<void> {
  if (!(await isThere(markerFile))) return;
  if ((await exists()) && !(await isUsed())) await run("docker", ["network", "rm", NETWORK]);
  await rm(markerFile);
}

async function exists(): Promise<boolean> {
  const names = await run("docker", ["network", "ls", "--format", "{{.Name}}"]);
  return names.split("\n").includes(NETWORK);
}

async function isUsed(): Promise<boolean> {
  const containers = await run("docker", ["ps", "-aq", "--filter", `network=${NETWORK}`]);
  return containers.trim() !== "";
}
