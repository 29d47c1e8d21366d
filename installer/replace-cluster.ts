import type { Stack } from "@pulumi/pulumi/automation/index.js";
import {
  type ClusterInputs,
  clusterInputs,
  makeWay,
  REPLACEMENT_PREVIEW,
} from "../components/kind-provider/cluster.ts";
import type { Following } from "./following.ts";
import { CLUSTER_TYPE, installedCluster } from "./stack.ts";

/**
 * Deletes the cluster and all in it where a change needs another one; the update that follows notices,
 * and makes it. A preview says before whether that update would be refused.
 *
 * @param goOn Asked at the last moment; throws where the user has changed their mind.
 * @returns The name of the cluster that is gone; undefined where none had to go.
 */
export async function replaceCluster(
  stack: Pick<Stack, "exportStack" | "preview">,
  following: Following,
  goOn: () => void,
): Promise<string | undefined> {
  const installed = installedCluster(await stack.exportStack());
  if (installed === undefined) return undefined;
  const wanted = await plannedCluster(stack, following);
  if (wanted === undefined) return undefined;
  return (await makeWay(installed, wanted, goOn)) ? installed.name : undefined;
}

/** The cluster that an update would want. Fails as that update would. */
async function plannedCluster(
  stack: Pick<Stack, "preview">,
  following: Following,
): Promise<ClusterInputs | undefined> {
  let inputs: unknown;
  process.env[REPLACEMENT_PREVIEW] = "true";
  try {
    await stack.preview({
      ...following,
      onEvent(event) {
        const { type, new: planned } = event.resourcePreEvent?.metadata ?? {};
        // Of what goes there is none, which the engine says with null.
        if (type === CLUSTER_TYPE && planned) inputs = planned.inputs;
        // Of the rest only what is wrong is worth telling: nothing is made.
        if (event.diagnosticEvent !== undefined) following.onEvent(event);
      },
    });
  } finally {
    delete process.env[REPLACEMENT_PREVIEW];
  }
  return clusterInputs.safeParse(inputs).data;
}
