import { tool } from "@langchain/core/tools";
import { z } from "zod";

const timeZone = z
  .string()
  .refine(isTimeZone, { error: "not an IANA time zone; use a name such as Europe/Paris or UTC" })
  .default("UTC")
  .describe("IANA time zone, e.g. Europe/Paris");

/** Tells the time; models can't know it. */
export const currentTime = tool(
  ({ time_zone }) =>
    new Intl.DateTimeFormat("en-GB", {
      dateStyle: "full",
      timeStyle: "long",
      timeZone: time_zone,
    }).format(new Date()),
  {
    name: "current_time",
    description: "The current date and time in a time zone.",
    schema: z.object({ time_zone: timeZone }),
  },
);

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en-GB", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
