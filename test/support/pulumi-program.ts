import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { type Program, record } from "./pulumi-monitor.ts";

export const CHECKOUT = resolve(import.meta.dirname, "../..");

const stackFile = z.object({ config: z.record(z.string(), z.unknown()) });
let runs = 0;

/** A stack's file as the engine hands it to the program: each value as text. */
export function configOf(file: string): Record<string, string> {
  const { config } = stackFile.parse(parse(readFileSync(join(CHECKOUT, file), "utf8")));
  return asText(config);
}

export function asText(values: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) => [
      key,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  );
}

/** The whole program (`index.ts`) with a stack's configuration, and what it exports. */
export function runProgram(
  config: Record<string, string>,
  options: { stack?: string; preview?: boolean } = {},
): Promise<Program<Record<string, unknown>>> {
  runs += 1;
  const text = { ...asText({ "platform:artifacts": withoutDownloads() }), ...config };
  // Each run is a module of its own: a program is run by loading it.
  return record({ ...options, config: text }, () => import(`../../index.ts?run=${runs}`));
}

/** The program fetches the Gateway API's definitions; tests have no network. */
function withoutDownloads() {
  const location = join(CHECKOUT, "test/fixtures/components/gateway-api.yaml");
  const checksum = createHash("sha256").update(readFileSync(location)).digest("hex");
  return { gatewayApi: { location, checksum } };
}

/** The local stack with a provider of each kind of secret, not touched by this machine's settings. */
export function localStack(): Promise<Program<Record<string, unknown>>> {
  return runProgram({
    ...configOf("Pulumi.local.yaml"),
    ...asText({ "platform:providers": PROVIDERS }),
  });
}

/** Keys that can be told wherever they turn up. */
export const PROVIDERS = {
  OPENAI_API_KEY: "CANARY-openai",
  ANTHROPIC_API_KEY: "CANARY-anthropic",
};
