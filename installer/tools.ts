import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { UserError } from "../runtime/common/errors.ts";

const run = promisify(execFile);

interface Tool {
  command: string;
  version: string[];
  where: string;
}

const TOOLS: Tool[] = [
  {
    command: "docker",
    version: ["--version"],
    where: "https://docs.docker.com/get-docker/",
  },
  {
    command: "kind",
    version: ["version"],
    where: "https://kind.sigs.k8s.io/docs/user/quick-start/#installation",
  },
  {
    command: "helm",
    version: ["version", "--short"],
    where: "https://helm.sh/docs/intro/install/",
  },
  {
    command: "kubectl",
    version: ["version", "--client"],
    where: "https://kubernetes.io/docs/tasks/tools/",
  },
];

/** @throws UserError that names every tool that is missing, and where to get it. */
export async function checkTools(): Promise<void> {
  const missing: Tool[] = [];
  for (const tool of TOOLS) if (!(await isThere(tool))) missing.push(tool);
  if (missing.length > 0) {
    throw new UserError(
      "tools_missing",
      `Not installed: ${missing.map(({ command }) => command).join(", ")}.`,
      [
        "Get:",
        ...missing.map(({ command, where }) => `  ${command.padEnd(8)} ${where}`),
        "or run without Docker: ./install.sh --embedded",
      ].join("\n"),
    );
  }
  await checkDockerRuns();
}

async function isThere({ command, version }: Tool): Promise<boolean> {
  try {
    await run(command, version);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

async function checkDockerRuns(): Promise<void> {
  try {
    await run("docker", ["info", "--format", "{{.ServerVersion}}"]);
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new UserError(
      "docker_not_running",
      `Docker does not answer: ${stderr?.trim() ?? (error as Error).message}`,
      "Start Docker (Docker Desktop, or: sudo systemctl start docker) and try again.",
    );
  }
}
