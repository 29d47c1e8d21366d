import type { Command } from "./command.ts";

const GLOBAL_OPTIONS: [string, string][] = [
  ["-h, --help", "show this text"],
  ["--verbose", "show the stack of an error"],
];

/** All commands, or those of a group such as `env`. */
export function overview(commands: readonly Command[], group = ""): string {
  const prefix = group === "" ? "agentctl" : `agentctl ${group}`;
  const lines = commands
    .filter((command) => group === "" || command.name.startsWith(`${group} `))
    .map((command): [string, string] => [command.name, command.description]);
  const options: [string, string][] =
    group === "" ? [...GLOBAL_OPTIONS, ["--version", "show the version"]] : GLOBAL_OPTIONS;
  return `Usage: ${prefix} <command> [options]

Commands:
${table(lines)}

Options:
${table(options)}

${prefix} <command> --help tells more.
`;
}

/** One command: how it is called and what its options mean. */
export function commandHelp(command: Command): string {
  const entries = Object.entries(command.options);
  const positionals = command.positionals.map((name) => `<${name}>`);
  const required = entries
    .filter(([, option]) => option.required)
    .map(([name, { value }]) => `--${name} ${value}`);
  const usage = ["agentctl", command.name, ...positionals, ...required, "[options]"].join(" ");
  const lines = entries.map(([name, { value, description }]): [string, string] => [
    value === undefined ? `--${name}` : `--${name} ${value}`,
    description,
  ]);
  return `Usage: ${usage}

${command.description}.

Options:
${table([...lines, ...GLOBAL_OPTIONS])}
`;
}

/** Two columns. */
function table(lines: [string, string][]): string {
  const width = Math.max(...lines.map(([left]) => left.length));
  return lines.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}
