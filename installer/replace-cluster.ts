import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { clusterInputsOf } from "../components/kind-cluster.ts";
import { makeWay } from "../components/kind-provider/cluster.ts";
import { readStackConfiguration } from "../components/stack-configuration.ts";
import { kindClusterArgs } from "../components/target-cluster.ts";
import { readAgents } from "../runtime/embedded/agents.ts";
import type { Settings } from "./settings.ts";
import { installedCluster } from "./stack.ts";

/**
 * Deletes the cluster and all in it where the settings need another one; the update that follows
 * notices, and makes it. Whatever can be known to be wrong with that update is found before.
 *
 * @returns The name of the cluster that is gone; undefined where none had to go.
 * @throws UserError, or Error of the stack's configuration.
 */
export async function replaceCluster(
  stack: Pick<Stack, "exportStack" | "getAllConfig">,
  place: { checkout: string; agents: string; data: string },
  settings: Settings,
): Promise<string | undefined> {
  const installed = installedCluster(await stack.exportStack());
  if (installed === undefined) return undefined;
  const values = Object.entries(await stack.getAllConfig());
  const configuration = readStackConfiguration(
    Object.fromEntries(values.map(([key, { value }]) => [key, value])),
    settings,
    process.env,
  );
  if (configuration.samples) await readAgents(place.checkout, place.agents);
  const wanted = clusterInputsOf(kindClusterArgs(configuration, place.data));
  return (await makeWay(installed, wanted)) ? installed.name : undefined;
}
