import { parseArgs } from "node:util";
import { UserError } from "../runtime/common/errors.ts";

export interface Arguments {
  uninstall: boolean;
  replaceCluster: boolean;
  demo: boolean;
  samples: boolean;
  verbose: boolean;
  help: boolean;
  config: string | undefined;
  port: number | undefined;
  clusterName: string | undefined;
}

export const USAGE = `Usage: ./install.sh [options]

Makes a kind cluster with a gVisor sandbox on this machine and installs the platform on it.
Running it again changes only what changed.

  --demo               answer offline with a demo model; no provider credential is needed
  --port N             the host port of the one door (default 8088)
  --cluster-name NAME  the kind cluster (default platform)
  --no-samples         without the sample agents
  --config FILE        more settings of the stack, YAML or JSON: image references, local files of
                       pinned artifacts and whatever else platform:… knows (air-gapped installs)
  --replace-cluster    make the cluster anew where a change needs that; all in it is lost
  --uninstall          remove everything again, the cluster too
  --verbose            Pulumi's own output, and the stack of an error
  --help               this text

  --embedded           run without Docker instead (see ./install.sh --embedded --help)`;

/** @throws UserError for an unknown flag or a wrong value. */
export function readArguments(argv: string[]): Arguments {
  let values: ReturnType<typeof parse>;
  try {
    values = parse(argv);
  } catch (error) {
    throw new UserError("arguments", (error as Error).message, USAGE, 2);
  }
  return {
    uninstall: values.uninstall ?? false,
    replaceCluster: values["replace-cluster"] ?? false,
    demo: values.demo ?? false,
    samples: !(values["no-samples"] ?? false),
    verbose: values.verbose ?? false,
    help: values.help ?? false,
    config: values.config,
    port: values.port === undefined ? undefined : portNumber(values.port),
    clusterName: values["cluster-name"],
  };
}

function parse(argv: string[]) {
  return parseArgs({
    args: argv,
    options: {
      uninstall: { type: "boolean" },
      "replace-cluster": { type: "boolean" },
      demo: { type: "boolean" },
      "no-samples": { type: "boolean" },
      verbose: { type: "boolean" },
      help: { type: "boolean", short: "h" },
      config: { type: "string" },
      port: { type: "string" },
      "cluster-name": { type: "string" },
    },
  }).values;
}

function portNumber(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  throw new UserError("arguments", `--port ${text}: there is no such port.`, USAGE, 2);
}
