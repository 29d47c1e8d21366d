import { parseArgs } from "node:util";
import { z } from "zod";
import { UserError } from "../runtime/common/errors.ts";
import type { Command, CommandContext } from "./command.ts";
import { commandHelp, overview } from "./help.ts";

const MISUSE = 2;
/** As shells report a program that Ctrl-C ended. */
const INTERRUPTED = 130;
/** A bug of ours (sysexits' EX_SOFTWARE). */
const BUG = 70;

/** What the command line needs of the process around it. */
export interface Cli {
  commands: readonly Command[];
  version: string;
  context: CommandContext;
  /** Writes to standard error. */
  complain(text: string): void;
}

/**
 * Runs one command line.
 *
 * @param words Without the program's own name.
 * @returns the exit code: 0 done, 1 a refusal or failure that was explained, 2 a wrong command
 *   line, 3 a run that waits for a person, 130 Ctrl-C.
 */
export async function runCli(words: string[], cli: Cli): Promise<number> {
  try {
    await dispatch(words, cli);
    return 0;
  } catch (error) {
    if (cli.context.signal.aborted) return INTERRUPTED;
    const verbose = words.includes("--verbose");
    if (error instanceof UserError) {
      cli.complain(`Error: ${error.message}\n${error.hint}\n`);
      if (verbose) cli.complain(`${error.stack}\n`);
      return error.exitCode;
    }
    const text = error instanceof Error ? (verbose ? error.stack : error.message) : String(error);
    cli.complain(`Error: ${text}\n`);
    if (!verbose) cli.complain("This is a bug of agentctl. --verbose shows where it happened.\n");
    return BUG;
  }
}

async function dispatch(words: string[], cli: Cli): Promise<void> {
  const { commands, context } = cli;
  const information = informationFor(words, cli);
  if (information !== undefined) {
    context.print(information);
    return;
  }
  const command = find(words, commands);
  if (command === undefined) throw unknownCommand(words, commands);
  const input = readInput(command, words.slice(wordsOf(command.name)));
  try {
    await command.handle(input, context);
  } catch (error) {
    throw error instanceof z.ZodError ? invalid(command, error) : error;
  }
}

/** The text that a command line asks for, where it asks for no work. */
function informationFor(words: string[], { commands, version }: Cli): string | undefined {
  const [first, second] = words;
  if (first === "--version") return `${version}\n`;
  if (first === undefined || first === "help" || asksForHelp([first])) return overview(commands);
  const command = find(words, commands);
  if (command !== undefined) {
    return asksForHelp(words) ? commandHelp(command) : undefined;
  }
  const asksForGroup = isGroup(first, commands) && (second === undefined || asksForHelp([second]));
  return asksForGroup ? overview(commands, first) : undefined;
}

function unknownCommand(words: string[], commands: readonly Command[]): UserError {
  const [first = "", second] = words;
  const said = isGroup(first, commands) ? `${first} ${second}` : first;
  return new UserError(
    "unknown_command",
    first.startsWith("-") ? `There is no option ${first} here.` : `There is no command ${said}.`,
    `Commands: ${commands.map(({ name }) => name).join(", ")}. agentctl --help tells more.`,
    MISUSE,
  );
}

function readInput(command: Command, words: string[]): Record<string, unknown> {
  const parsed = parse(command, words);
  const values: Record<string, unknown> = parsed.values;
  const { positionals } = parsed;
  const missing = [
    ...command.positionals.slice(positionals.length).map((name) => `<${name}>`),
    ...Object.entries(command.options)
      .filter(([name, option]) => option.required && values[name] === undefined)
      .map(([name]) => `--${name}`),
  ];
  if (missing.length > 0) throw misuse(command, `${missing.join(" and ")} is missing.`);
  const surplus = positionals[command.positionals.length];
  if (surplus !== undefined) throw misuse(command, `${JSON.stringify(surplus)} is one too many.`);
  const named = command.positionals.map((name, at) => [name, positionals[at]]);
  return { ...values, ...Object.fromEntries(named) };
}

function parse(command: Command, words: string[]) {
  const options = Object.fromEntries(
    Object.entries(command.options).map(([name, { value }]) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  try {
    const verbose = { type: "boolean" as const };
    return parseArgs({ args: words, options: { ...options, verbose }, allowPositionals: true });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const [problem = ""] = error.message.split(" To specify a positional argument");
    throw misuse(command, problem.replaceAll("\n", " "));
  }
}

function invalid(command: Command, error: z.ZodError): UserError {
  const problems = error.issues.map((issue) => {
    const name = String(issue.path[0]);
    return `${command.positionals.includes(name) ? `<${name}>` : `--${name}`} ${issue.message}.`;
  });
  return misuse(command, problems.join(" "));
}

function misuse(command: Command, message: string): UserError {
  return new UserError("arguments", message, `See agentctl ${command.name} --help.`, MISUSE);
}

const asksForHelp = (words: string[]) => words.includes("--help") || words.includes("-h");

function find(words: string[], commands: readonly Command[]): Command | undefined {
  return commands.find(({ name }) => name === words.slice(0, wordsOf(name)).join(" "));
}

function isGroup(word: string, commands: readonly Command[]): boolean {
  return commands.some(({ name }) => name.startsWith(`${word} `));
}

const wordsOf = (name: string) => name.split(" ").length;
