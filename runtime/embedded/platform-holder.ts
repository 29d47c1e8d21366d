import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { readArguments } from "./arguments.ts";
import { processArguments, processDirectory, processParent } from "./process-identity.ts";

/** Where its parent's command line names the platform's own program. */
const ENTRY = join("runtime", "embedded", "main.ts");
/** A program of the platform is a child of its parent process. */
const GENERATIONS = 2;

const instance = z.object({ pid: z.number() });

/** A platform that runs on this machine. */
export interface RunningPlatform {
  /** Of the process that Ctrl-C or `kill` has to reach. */
  pid: number;
  /** Known where this account may read it. */
  dataDirectory: string | undefined;
}

/** The platform that a process belongs to, be it its parent or one of its programs. */
export async function platformOf(pid: number): Promise<RunningPlatform | undefined> {
  let candidate: number | undefined = pid;
  for (let n = 0; n < GENERATIONS && candidate !== undefined; n++) {
    const args: string[] = (await processArguments(candidate)) ?? [];
    const at = args.findIndex((argument) => argument.endsWith(ENTRY));
    if (at !== -1) {
      return {
        pid: candidate,
        dataDirectory: await dataDirectoryOf(candidate, args[at] ?? "", args.slice(at + 1)),
      };
    }
    candidate = await processParent(candidate);
  }
  return undefined;
}

async function dataDirectoryOf(pid: number, entry: string, args: string[]) {
  const checkout = dirname(dirname(dirname(entry)));
  const cwd = await processDirectory(pid);
  try {
    const { data } = readArguments(args, checkout, cwd ?? checkout);
    const file = join(data, "embedded.json");
    return instance.parse(JSON.parse(await readFile(file, "utf8"))).pid === pid ? data : undefined;
  } catch {
    // Another release's command line, or a directory that is closed to us: its process id must do.
    return undefined;
  }
}
