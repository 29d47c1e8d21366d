import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Tools of the cluster tests, and how to get each. */
const TOOLS: Record<string, string[]> = {
  docker: ["info", "--format", "{{.ServerVersion}}"],
  kind: ["version"],
  helm: ["version", "--short"],
  kubectl: ["version", "--client"],
};

/** @throws where Docker, kind, helm or kubectl is not there: these tests are never skipped. */
export async function requireTools(): Promise<void> {
  for (const [tool, args] of Object.entries(TOOLS)) {
    try {
      await run(tool, args);
    } catch (error) {
      throw new Error(
        `The cluster tests need ${tool}, which does not answer: ${(error as Error).message}\nInstall Docker (and start it), kind, helm and kubectl, or source the environment of an offline lab, then: npm run test:cluster`,
      );
    }
  }
}

/**
 * Settings as an air-gapped user would give them to `--config`, from the variables `LAB_*` of a
 * machine that has every image and file in place already; none where the machine may download.
 */
export function labSettings(environment: NodeJS.ProcessEnv): Record<string, unknown> {
  const named = (name: string) => environment[name] ?? "";
  if (named("LAB_NODE_IMAGE") === "") return {};
  return {
    "platform:images": {
      node: named("LAB_NODE_IMAGE"),
      base: "node:24-trixie-slim",
      postgres: "postgres:17",
      valkey: "valkey/valkey:8",
      phoenix: "arizephoenix/phoenix:20.26.1",
    },
    "platform:artifacts": {
      gvisor: { location: named("LAB_GVISOR_ARCHIVE"), checksum: named("LAB_GVISOR_SHA512") },
      gatewayApi: {
        location: named("LAB_GATEWAY_API"),
        checksum: named("LAB_GATEWAY_API_SHA256"),
      },
    },
  };
}
