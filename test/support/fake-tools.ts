import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What the machine of a test looks like to docker, kind and kubectl. */
export interface Machine {
  clusters?: string[];
  /** The hash among the labels of the cluster's node. */
  hash?: string;
  nodeRuns?: boolean;
  memoryBytes?: number;
  /** What kind says when it can't make a cluster. */
  creationFails?: string;
  /** The ports of this machine that lead into the node. */
  nodePorts?: number[];
  /** Whether a platform lives in the cluster. */
  hasPlatform?: boolean;
  /** Images that Docker does not have. */
  absentImages?: string[];
  imagesInNode?: string[];
  /** Layers that the node has unpacked. */
  layersInNode?: string[];
  networks?: string[];
  /** Containers of kind's network. */
  attached?: string[];
}

/** docker, kind and kubectl that note down how they were called and do nothing else. */
export interface FakeTools {
  /** A place for a test's files. */
  directory: string;
  set(machine: Machine): Promise<void>;
  /** The calls so far, a line each. */
  calls(): Promise<string[]>;
  /** What kind was told to make. */
  configuration(): Promise<string>;
  remove(): Promise<void>;
}

const SCRIPTS = {
  kind: `case "$*" in
  "get clusters") cat "$state/clusters" ;;
  "create cluster"*)
    cat >"$state/configuration"; name=$4
    [ -e "$state/creation-fails" ] && { cat "$state/creation-fails" >&2; exit 1; }
    while [ "$1" != --kubeconfig ]; do shift; done; echo made >"$2"
    echo "$name" >>"$state/clusters"; echo kind >>"$state/networks" ;;
  "export kubeconfig"*) echo exported >"$6" ;;
  "delete cluster"*) : >"$state/clusters" ;;
  "get kubeconfig"*) echo "kubeconfig of $4" ;;
esac`,
  kubectl: `case "$*" in
  *"get namespace "*) cat "$state/platform" ;;
  *) cat "$state/hash" ;;
esac`,
  docker: `case "$*" in
  info*) cat "$state/info" ;;
  *PortBindings*) cat "$state/ports" ;;
  *RootFS.Layers*) echo '["sha256:aa","sha256:bb"]' ;;
  *"snapshots ls"*) cat "$state/snapshots" ;;
  "image inspect"*) shift $(($# - 1)); ! grep -qx "$1" "$state/absent" ;;
  *State.Running*) cat "$state/running" ;;
  *".Id}}"*) echo node-id ;;
  "network ls"*) cat "$state/networks" ;;
  "network rm "*) : >"$state/networks" ;;
  "ps -aq --filter network=kind") cat "$state/attached" ;;
  start*) echo true >"$state/running" ;;
  *"images ls -q"*) cat "$state/images" ;;
  *"images import"*) cat >/dev/null ;;
esac`,
};

/** Puts the fakes before all other tools of this process until they are removed. */
export async function fakeTools(): Promise<FakeTools> {
  const directory = await mkdtemp(join(tmpdir(), "platform-tools-"));
  const [bin, state, log] = ["bin", "state", "log"].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  await mkdir(bin);
  await mkdir(state);
  for (const [tool, script] of Object.entries(SCRIPTS)) {
    const path = join(bin, tool);
    await writeFile(path, `#!/bin/sh\nstate='${state}'\necho "${tool} $*" >>'${log}'\n${script}\n`);
    await chmod(path, 0o755);
  }
  const path = process.env.PATH;
  process.env.PATH = `${bin}:${path}`;
  return {
    directory,
    async set(machine) {
      const { clusters = [], imagesInNode = [], memoryBytes = 8 * 1024 ** 3 } = machine;
      await writeFile(log, "");
      await writeFile(join(state, "clusters"), clusters.map((name) => `${name}\n`).join(""));
      await writeFile(join(state, "hash"), machine.hash ?? "");
      await writeFile(join(state, "running"), `${machine.nodeRuns ?? true}\n`);
      await writeFile(join(state, "info"), JSON.stringify({ NCPU: 4, MemTotal: memoryBytes }));
      await writeFile(join(state, "images"), imagesInNode.join("\n"));
      await writeFile(
        join(state, "networks"),
        (machine.networks ?? []).map((name) => `${name}\n`).join(""),
      );
      await writeFile(join(state, "snapshots"), (machine.layersInNode ?? []).join("\n"));
      await writeFile(join(state, "attached"), (machine.attached ?? []).join("\n"));
      await rm(join(state, "creation-fails"), { force: true });
      if (machine.creationFails) {
        await writeFile(join(state, "creation-fails"), machine.creationFails);
      }
      await writeFile(join(state, "platform"), machine.hasPlatform ? "namespace/platform\n" : "");
      await writeFile(join(state, "ports"), (machine.nodePorts ?? []).join("\n"));
      await writeFile(join(state, "absent"), (machine.absentImages ?? []).join("\n"));
    },
    calls: async () => (await readFile(log, "utf8")).split("\n").filter(Boolean),
    configuration: () => readFile(join(state, "configuration"), "utf8"),
    async remove() {
      process.env.PATH = path;
      await rm(directory, { recursive: true });
    },
  };
}
