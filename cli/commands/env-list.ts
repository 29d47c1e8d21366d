import { z } from "zod";
import { defineCommand } from "../command.ts";
import { agentsHostOf } from "../connection.ts";

const HEADINGS = ["", "NAME", "CONTEXT", "NAMESPACE", "AGENTS"];

export const envList = defineCommand({
  name: "env list",
  description: "List the environments; * marks the selected one",
  positionals: [],
  options: {},
  input: z.object({}),
  async run(_input, context) {
    const { current, all } = await context.environments.read();
    if (all.size === 0) {
      context.print("No environments. Add one with: agentctl env add\n");
      return;
    }
    const rows = [...all].map(([name, environment]) => [
      name === current ? "*" : "",
      name,
      environment.kubeContext,
      environment.namespace,
      agentsHostOf(environment) ?? "-",
    ]);
    context.print(columns([HEADINGS, ...rows]));
  },
});

function columns(rows: string[][]): string {
  const widths = HEADINGS.map((_, at) => Math.max(1, ...rows.map((row) => row[at]?.length ?? 0)));
  return rows
    .map((row) => `${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ")}`.trimEnd())
    .map((line) => `${line}\n`)
    .join("");
}
