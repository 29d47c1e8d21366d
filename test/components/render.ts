import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { dumpYaml } from "@kubernetes/client-node";
import { kubernetesObjects } from "../support/kubernetes-objects.ts";
import { productionStack } from "../support/production-stack.ts";
import type { Program } from "../support/pulumi-monitor.ts";
import { localStack } from "../support/pulumi-program.ts";

/*
 * Writes into FOLDER what a stack puts into its cluster, but for the agents, whose objects the chart
 * describes: platform.yaml of the local stack, platform-production.yaml of the example for an existing
 * cluster. Secrets hold made-up values. For the judges:
 *
 *   npm run render -- FOLDER && test/chart/judges.sh FOLDER/platform*.yaml
 */

const { positionals } = parseArgs({ allowPositionals: true });
const [folder] = positionals;
if (folder === undefined) throw new Error("Name the folder to write manifests into.");
await mkdir(folder, { recursive: true });
await write("platform.yaml", await localStack());
await write("platform-production.yaml", await productionStack());

async function write(file: string, { resources }: Program<unknown>): Promise<void> {
  // Programs register in an order that changes from run to run.
  const documents = kubernetesObjects(resources)
    .map(named)
    .map((object) => dumpYaml(object));
  await writeFile(join(String(folder), file), documents.sort().join("---\n"));
}

/** Pulumi makes up the names of objects that have none; the judges want to see one. */
function named<Each extends { metadata?: { name?: string; labels?: Record<string, string> } }>(
  object: Each,
): Each {
  const name = object.metadata?.name ?? object.metadata?.labels?.["app.kubernetes.io/name"];
  return { ...object, metadata: { ...object.metadata, name } };
}
