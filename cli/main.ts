import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { runCli } from "./cli.ts";
import { commands } from "./commands/commands.ts";
import { createEnvironmentStore } from "./environments.ts";

const { XDG_CONFIG_HOME, AGENTCTL_TOKEN } = process.env;
const { version } = JSON.parse(await readFile(new URL("package.json", import.meta.url), "utf8"));

const interruption = new AbortController();
// Once: a second Ctrl-C ends the program at once.
process.once("SIGINT", () => interruption.abort());
// A reader that has seen enough, as `head`, is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

process.exitCode = await runCli(process.argv.slice(2), {
  commands,
  version,
  context: {
    environments: createEnvironmentStore(XDG_CONFIG_HOME || join(homedir(), ".config")),
    token: AGENTCTL_TOKEN || undefined,
    print: (output) => process.stdout.write(output),
    readInput: () => text(process.stdin),
    signal: interruption.signal,
  },
  complain: (output) => process.stderr.write(output),
});
