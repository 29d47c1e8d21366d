import type { Command } from "../command.ts";
import { envAdd } from "./env-add.ts";
import { envList } from "./env-list.ts";
import { envUse } from "./env-use.ts";
import { run } from "./run.ts";

/** All commands, in the order of help. */
export const commands: readonly Command[] = [envAdd, envUse, envList, run];
