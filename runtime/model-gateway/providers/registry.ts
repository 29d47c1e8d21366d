import { HttpError } from "../../common/errors.ts";
import { InvalidRequest } from "../invalid-request.ts";
import { anthropic } from "./anthropic/provider.ts";
import { demo } from "./demo/provider.ts";
import { gemini } from "./gemini/provider.ts";
import { ollamaCloud } from "./ollama-cloud/provider.ts";
import { ollamaLocal } from "./ollama-local/provider.ts";
import { openai } from "./openai/provider.ts";
import type { Endpoint, Provider } from "./provider.ts";
import { vllm } from "./vllm/provider.ts";

/** In the order in which they are asked for a default model. */
const REAL_PROVIDERS = [openai, ollamaCloud, ollamaLocal, anthropic, gemini, vllm];

/** The variables of which an installation needs at least one, in the order of precedence. */
export const PROVIDER_VARIABLES: readonly string[] = REAL_PROVIDERS.map((kind) => kind.variable);

const SETTINGS = REAL_PROVIDERS.flatMap((kind) => kind.settings);

/** Whether a provider reads a variable of this name. */
export function isProviderSetting(name: string): boolean {
  return SETTINGS.includes(name);
}

/** The variables of providers whose names begin like this one, or all of them. */
export function settingsLike(name: string): readonly string[] {
  const brand = name.slice(0, name.indexOf("_") + 1);
  const same = SETTINGS.filter((each) => brand !== "" && each.startsWith(brand));
  return same.length > 0 ? same : SETTINGS;
}

/**
 * What an environment says about providers: credentials, base URLs and other settings, by their
 * variables. Nothing else, since other programs' variables begin alike and may be secrets.
 */
export function providerSettings(environment: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter(
      (entry): entry is [string, string] => isProviderSetting(entry[0]) && Boolean(entry[1]),
    ),
  );
}

/**
 * The providers that the environment asks for, the one of the default model first. The demo
 * provider comes last: its model is the default only where there is no other.
 *
 * @throws UserError that names a wrong variable.
 */
export function configuredProviders(environment: NodeJS.ProcessEnv): Provider[] {
  return [...REAL_PROVIDERS, demo].flatMap((kind) => kind.configure(environment) ?? []);
}

/** `DEFAULT_LLM_MODEL` where it is set, else the default of the first provider, if there is one. */
export function defaultModel(environment: NodeJS.ProcessEnv): string | undefined {
  return environment.DEFAULT_LLM_MODEL || configuredProviders(environment)[0]?.defaultModel;
}

/** Where a call goes: the provider, and the provider's own name of the model. */
export interface ModelRoute {
  provider: Provider;
  model: string;
}

/** Finds the provider of a model id. Ids are split at the first `/` only. */
export function findRoute(providers: readonly Provider[], modelId: string): ModelRoute | undefined {
  const exact = providers.find(({ models }) => "exact" in models && models.exact.includes(modelId));
  if (exact !== undefined) return { provider: exact, model: modelId };
  const slash = modelId.indexOf("/");
  const prefix = modelId.slice(0, slash);
  const model = modelId.slice(slash + 1);
  if (slash < 1 || model === "") return undefined;
  const provider = providers.find(({ models }) => "prefix" in models && models.prefix === prefix);
  return provider && { provider, model };
}

/**
 * The route of a call.
 *
 * @throws HttpError 503 `no healthy upstream` for a model that no provider serves. The header keeps
 *   the openai SDKs from asking three times.
 * @throws InvalidRequest where the provider lacks the endpoint.
 */
export function routeOf(
  providers: readonly Provider[],
  modelId: string,
  endpoint: Endpoint,
): ModelRoute {
  const route = findRoute(providers, modelId);
  if (route === undefined) {
    throw new HttpError(503, "model_not_found", "no healthy upstream", {
      headers: { "x-should-retry": "false" },
    });
  }
  if (!route.provider.endpoints.includes(endpoint)) {
    throw new InvalidRequest(
      "model",
      `The provider ${route.provider.name} has no ${endpoint} endpoint. Choose a model of another.`,
      "unsupported_endpoint",
    );
  }
  return route;
}
