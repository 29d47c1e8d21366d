import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../../runtime/common/errors.ts";
import { KIND_RELEASE } from "../artifacts.ts";
import { fetchArtifact, unpack } from "./artifact.ts";
import { nodeName } from "./cluster.ts";
import { CommandFailed, run } from "./commands.ts";
import type { ResourceKind } from "./resources.ts";

const inputs = z.object({
  clusterName: z.string(),
  nodeId: z.string(),
  /** URL or path of a gVisor release archive. */
  archive: z.string(),
  sha512: z.string(),
  cacheDirectory: z.string(),
});
export type SandboxInputs = z.output<typeof inputs>;

/** The runtime handler that the cluster's containerd patch registers (see kind-cluster.ts). */
export const RUNTIME_HANDLER = "runsc";
const BINARIES = "/usr/local/bin";
const RUNSC_CONFIG = "/etc/containerd/runsc.toml";
/** Systrap works everywhere; KVM only on bare metal. */
const RUNSC_TOML = '[runsc_config]\n  platform = "systrap"\n';

/** gVisor on the node: binaries in place and a containerd that knows them. */
export const sandbox: ResourceKind<SandboxInputs, SandboxInputs> = {
  inputs,
  replaces: ["clusterName", "nodeId"],

  async create(wanted) {
    await install(wanted);
    return { id: `${wanted.clusterName}/${RUNTIME_HANDLER}`, state: wanted };
  },

  async read(state) {
    try {
      await run("docker", ["exec", nodeName(state.clusterName), "test", "-x", `${BINARIES}/runsc`]);
      return state;
    } catch (error) {
      if (error instanceof CommandFailed) return undefined;
      throw error;
    }
  },

  async update(_state, wanted) {
    await install(wanted);
    return wanted;
  },

  // Goes with the node.
  async delete() {},
};

async function install(wanted: SandboxInputs): Promise<void> {
  const node = nodeName(wanted.clusterName);
  await assertRegistered(node);
  const archive = await fetchArtifact(wanted.archive, wanted.sha512, wanted.cacheDirectory);
  const files = await unpack(
    archive,
    join(wanted.cacheDirectory, `gvisor-${wanted.sha512.slice(0, 16)}`),
  );
  // Releases since August 2026 have a directory gvisor-bin that must lie beside runsc.
  for (const name of ["runsc", "containerd-shim-runsc-v1", "gvisor-bin"]) {
    const path = files.get(name);
    if (path !== undefined) await run("docker", ["cp", path, `${node}:${BINARIES}/`]);
    else if (name !== "gvisor-bin") throw incomplete(wanted.archive, name);
  }
  await run("docker", [
    "exec",
    node,
    "chmod",
    "-R",
    "a+rx",
    `${BINARIES}/runsc`,
    `${BINARIES}/containerd-shim-runsc-v1`,
  ]);
  await run("docker", ["exec", "-i", node, "sh", "-c", `cat > ${RUNSC_CONFIG}`], RUNSC_TOML);
  await run("docker", ["exec", node, `${BINARIES}/runsc`, "--version"]);
}

/** What containerd loaded counts, not what was written: a patch of the wrong version is ignored. */
async function assertRegistered(node: string): Promise<void> {
  const loaded = await run("docker", ["exec", node, "containerd", "config", "dump"]);
  if (/\.runtimes\.'?"?runsc/.test(loaded) && loaded.includes("io.containerd.runsc.v1")) return;
  throw new UserError(
    "sandbox_not_registered",
    "The node's containerd did not take the gVisor runtime from its configuration.",
    `Use kind ${KIND_RELEASE}, as the README says, or ask for platform:sandbox none, knowing what that means.`,
  );
}

function incomplete(archive: string, name: string): UserError {
  return new UserError(
    "sandbox_archive",
    `The gVisor archive ${archive} has no ${name}.`,
    "Name a gVisor release archive in platform:artifacts.",
  );
}
