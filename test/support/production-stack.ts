import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { CANARY, type Program } from "./pulumi-monitor.ts";
import { asText, CHECKOUT, configOf, runProgram } from "./pulumi-program.ts";

const FILE = "Pulumi.production.yaml.example";

/** The text of the example of a stack for an existing cluster. */
export function productionExample(): string {
  return readFileSync(join(CHECKOUT, FILE), "utf8");
}

/** The example as a stack, once its commands have been followed, with changes as text. */
export function productionStack(
  options: { changes?: Record<string, string>; preview?: boolean } = {},
): Promise<Program<Record<string, unknown>>> {
  const { changes, preview = false } = options;
  const config = { ...configOf(FILE), ...secretsOfCommands(), ...changes };
  return runProgram(config, { stack: "production", preview });
}

/** What a user would answer to the file's commands. */
const ANSWERS: Record<string, string> = {
  "platform:providers.OPENAI_API_KEY": `${CANARY}-openai`,
  "platform:database.url": `postgres://provisioner:${CANARY}-admin@db.example.com:5432/platform`,
  "platform:database.modelGatewayUrl": `postgres://model_gateway:${CANARY}-own@db.example.com:5432/platform`,
  "platform:cache.url": `rediss://admin:${CANARY}@cache.example.com:6380`,
};

/** The secrets that the file tells the user to set, as Pulumi would hand them to the program. */
function secretsOfCommands(): Record<string, string> {
  const paths = [
    ...productionExample().matchAll(/^# +npx pulumi config set --secret --path (\S+)$/gm),
  ].map(([, path = ""]) => path);
  expect(paths).to.have.members(Object.keys(ANSWERS));
  const values: Record<string, Record<string, unknown>> = {};
  for (const path of paths) {
    const [key = "", field = ""] = path.split(".");
    values[key] = { ...values[key], [field]: ANSWERS[path] };
  }
  return asText(values);
}
