import { localStack } from "../support/pulumi-program.ts";

/**
 * The URNs of the local stack, a line each, without project and stack. A live object whose URN
 * changes is deleted and made anew, with all that it holds.
 */
export async function urnTable(): Promise<string> {
  const { resources } = await localStack();
  const lines = resources.map(({ urn }) => urn.split("::").slice(2).join("::")).sort();
  return `${lines.join("\n")}\n`;
}
