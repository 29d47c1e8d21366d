import type { z } from "zod";
import type { EnvironmentStore } from "./environments.ts";

/** What a command may use; nothing else of the process. */
export interface CommandContext {
  environments: EnvironmentStore;
  /** `AGENTCTL_TOKEN`. */
  token: string | undefined;
  /** Writes to standard output, as it is. */
  print(text: string): void;
  /** All of standard input. */
  readInput(): Promise<string>;
  /** Aborts at Ctrl-C. */
  signal: AbortSignal;
}

/** An option of a command. */
export interface Option {
  description: string;
  /** How help names its value; a flag has none. */
  value?: string;
  required?: boolean;
}

/** A command as data: help, parsing and validation come from it. */
export interface Command {
  /** The words that call it, e.g. `env add`. */
  name: string;
  description: string;
  /** Positional arguments, all required. */
  positionals: readonly string[];
  options: Readonly<Record<string, Option>>;
  /** @param input Positionals and options by name, not yet validated. */
  handle(input: Record<string, unknown>, context: CommandContext): Promise<void>;
}

interface Definition<Schema extends z.ZodType> extends Omit<Command, "handle"> {
  /** Validates positionals and options, by their names. */
  input: Schema;
  run(input: z.output<Schema>, context: CommandContext): Promise<void>;
}

/** Makes a command whose handler sees only input that its schema lets through. */
export function defineCommand<Schema extends z.ZodType>(definition: Definition<Schema>): Command {
  const { input: schema, run, ...command } = definition;
  return {
    ...command,
    async handle(input, context) {
      await run(schema.parse(input), context);
    },
  };
}
