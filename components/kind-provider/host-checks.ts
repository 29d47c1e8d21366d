import { UserError } from "../../runtime/common/errors.ts";
import { run } from "./commands.ts";

const GIB = 1024 ** 3;
/** Kubernetes itself takes 0.6 GiB, the platform up to 1.5 GiB. */
const MEMORY_BYTES = 4 * GIB;
const CPUS = 2;

/** @throws UserError where Docker does not run or has too little to give. */
export async function checkDocker(): Promise<void> {
  const info = await dockerInfo();
  if (info.MemTotal >= MEMORY_BYTES * 0.95 && info.NCPU >= CPUS) return;
  throw new UserError(
    "docker_too_small",
    `Docker has ${info.NCPU} CPUs and ${(info.MemTotal / GIB).toFixed(1)} GiB of memory; the platform needs ${CPUS} and ${MEMORY_BYTES / GIB}.`,
    "Give Docker more in its settings (Docker Desktop: Settings, Resources), then try again.",
  );
}

async function dockerInfo(): Promise<{ MemTotal: number; NCPU: number }> {
  try {
    return JSON.parse(await run("docker", ["info", "--format", "{{json .}}"]));
  } catch (error) {
    throw new UserError(
      "docker_unreachable",
      `Docker does not answer: ${(error as Error).message}`,
      "Start Docker and try again.",
    );
  }
}
