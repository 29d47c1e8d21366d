import { z } from "zod";
import { UserError } from "../runtime/common/errors.ts";
import type { ServerSentEvent } from "./server-sent-events.ts";

/** A script can tell from it that a person is needed. */
const WAITS_FOR_A_PERSON = 3;

const content = z.union([
  z.string(),
  z.array(z.union([z.string(), z.looseObject({ type: z.string(), text: z.string().optional() })])),
]);
const message = z.looseObject({
  type: z.string(),
  id: z.string().nullish(),
  content: content.nullish(),
});
const chunk = z.tuple([message], z.unknown());
const failure = z.looseObject({ error: z.string().optional(), message: z.string().optional() });
const interrupts = z.array(z.looseObject({ value: z.unknown().optional() }));

/** The state that a run ended with, as the wire has it. */
export const runValues = z.looseObject({
  __error__: failure.optional(),
  __interrupt__: interrupts.optional(),
  messages: z.array(z.unknown()).optional().catch(undefined),
});
export type RunValues = z.output<typeof runValues>;

/**
 * What the agent said last, or the whole state of an agent that has no messages.
 *
 * @throws UserError where the run failed, or waits for a person.
 */
export function answerOf(values: RunValues): string {
  if (values.__error__ !== undefined) throw runFailed(values.__error__);
  if (values.__interrupt__ !== undefined && values.__interrupt__.length > 0) {
    throw waitsForPerson(values.__interrupt__);
  }
  const said = (values.messages ?? [])
    .map((each) => message.safeParse(each).data)
    .findLast((each) => each !== undefined && isAssistant(each.type));
  return said === undefined ? JSON.stringify(values, null, 2) : textOf(said.content);
}

/** Prints an answer while it comes. */
export class LiveAnswer {
  readonly #print: (text: string) => void;
  #values: RunValues | undefined;
  /** The message that is being printed. */
  #messageId: string | null | undefined;
  #hasPrinted = false;

  constructor(print: (text: string) => void) {
    this.#print = print;
  }

  /** @throws UserError where the event says that the run failed. */
  take({ event, data }: ServerSentEvent): void {
    if (event === "error") throw runFailed(failure.parse(JSON.parse(data)));
    if (event === "values") this.#values = runValues.parse(JSON.parse(data));
    if (event !== "messages") return;
    const [part] = chunk.parse(JSON.parse(data));
    const text = isAssistant(part.type) ? textOf(part.content) : "";
    if (text === "") return;
    if (this.#hasPrinted && part.id !== this.#messageId) this.#print("\n");
    this.#print(text);
    this.#hasPrinted = true;
    this.#messageId = part.id;
  }

  /**
   * Call it at the stream's end: an agent that does not stream its messages is printed now.
   *
   * @throws UserError where the run waits for a person.
   */
  finish(): void {
    if (this.#hasPrinted) this.#print("\n");
    if (this.#values === undefined) {
      if (this.#hasPrinted) return;
      throw new UserError(
        "no_answer",
        "The stream ended without an answer.",
        "The platform may have been restarted. Run it again.",
      );
    }
    const answer = answerOf(this.#values);
    if (!this.#hasPrinted) this.#print(`${answer}\n`);
  }
}

function runFailed(error: z.output<typeof failure>): UserError {
  const said = [error.error, error.message].filter((part) => part !== undefined).join(": ");
  return new UserError(
    "run_failed",
    `The run failed: ${said === "" ? "the platform does not say why" : said}`,
    "Its trace shows where.",
  );
}

function waitsForPerson(waiting: z.output<typeof interrupts>): UserError {
  const asked = waiting.map(({ value }) =>
    typeof value === "string" ? value : JSON.stringify(value ?? null),
  );
  return new UserError(
    "run_interrupted",
    `The run waits for a person: ${asked.join("; ")}`,
    "Only a run with --thread can be taken up again.",
    WAITS_FOR_A_PERSON,
  );
}

function isAssistant(type: string): boolean {
  return type === "ai" || type === "AIMessageChunk" || type === "AIMessage";
}

function textOf(from: z.output<typeof content> | null | undefined): string {
  if (from === null || from === undefined || typeof from === "string") return from ?? "";
  return from.map((part) => (typeof part === "string" ? part : (part.text ?? ""))).join("");
}
