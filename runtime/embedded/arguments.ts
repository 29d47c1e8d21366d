import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { UserError } from "../common/errors.ts";

export const USAGE = `Usage: ./install.sh --embedded [options]

Runs the platform on this machine, without Docker, until Ctrl-C.

  --demo        answer offline with a demo model; no provider credential is needed
  --port N      the one port (default 8088)
  --data DIR    where database, secrets and logs are kept (default .platform of the checkout)
  --agents DIR  the folder of agent declarations (default agents of the checkout)
  --verbose     show the stack of an error
  --help        this text`;

/** What the command line asks for. */
export interface Arguments {
  demo: boolean;
  port: number;
  data: string;
  agents: string;
  verbose: boolean;
  help: boolean;
}

/**
 * Reads the command line.
 *
 * @param checkout The platform's own directory.
 * @param cwd What directories are relative to: where the reader stands.
 * @throws UserError that names the wrong argument.
 */
export function readArguments(
  args: string[],
  checkout: string,
  cwd: string = process.cwd(),
): Arguments {
  const { values } = parse(args);
  return {
    demo: values.demo ?? false,
    port: readPort(values.port ?? "8088"),
    data: values.data === undefined ? join(checkout, ".platform") : resolve(cwd, values.data),
    agents: values.agents === undefined ? join(checkout, "agents") : resolve(cwd, values.agents),
    verbose: values.verbose ?? false,
    help: values.help ?? false,
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        embedded: { type: "boolean" },
        demo: { type: "boolean" },
        port: { type: "string" },
        data: { type: "string" },
        agents: { type: "string" },
        verbose: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    const message = error instanceof Error ? (error.message.split(". ")[0] ?? "") : String(error);
    throw new UserError("arguments", `${message.replace(/\.$/, "")}.`, USAGE, 2);
  }
}

function readPort(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw new UserError("arguments", `--port ${text} is not a port.`, "Use 1 to 65535.", 2);
}
