import { z } from "zod";
import type { Logger } from "../common/logging.ts";
import type { HttpProvider, Provider } from "./providers/provider.ts";
import type { UpstreamAnswer, UpstreamCall } from "./transport.ts";

/** One model, as `GET /v1/models` shows it. */
export interface Model {
  id: string;
  object: "model";
  /** Unix time in s; 0 where the provider doesn't say. */
  created: number;
  /** The provider. */
  owned_by: string;
}

export interface ModelListOptions {
  providers: readonly Provider[];
  /** Listed first, if a provider serves it. */
  defaultModel: string | undefined;
  send(provider: Provider, call: UpstreamCall): Promise<UpstreamAnswer>;
  logger: Logger;
  /** How long one provider may take, in ms. */
  timeoutMs?: number;
}

const FRESH_MS = 60_000;
/** A provider that was down is asked again sooner. */
const FAILED_FRESH_MS = 5_000;
const MAX_LIST_BYTES = 4 * 1024 * 1024;
const listedModels = z.object({
  data: z.array(
    z.object({ id: z.string().min(1), created: z.number().optional().catch(undefined) }),
  ),
});

/**
 * Makes the list of all models that calls can name: what the providers list themselves, and always
 * their default models. A provider that is down has its default model listed and no more.
 */
export function createModelList(options: ModelListOptions): () => Promise<Model[]> {
  const cache = new Map<Provider, { models: Promise<Model[]>; until: number }>();

  function ask(provider: HttpProvider): Promise<Model[]> {
    const cached = cache.get(provider);
    if (cached !== undefined && cached.until > Date.now()) return cached.models;
    const entry = {
      until: Date.now() + FRESH_MS,
      models: askProvider(provider, options).catch((error: unknown) => {
        entry.until = Date.now() + FAILED_FRESH_MS;
        const reason = error instanceof Error ? error.name : String(error);
        options.logger.warn({ provider: provider.name, reason }, "a provider lists no models");
        return [];
      }),
    };
    cache.set(provider, entry);
    return entry.models;
  }

  async function modelsOf(provider: Provider): Promise<Model[]> {
    const known = "exact" in provider.models ? [...provider.models.exact] : [];
    const first = [provider.defaultModel, ...known].map((id) => model(provider, id));
    const asked = "baseUrl" in provider && provider.endpoints.includes("models");
    return asked ? [...first, ...(await ask(provider))] : first;
  }

  return async () => {
    const all = (await Promise.all(options.providers.map(modelsOf))).flat();
    const isDefault = ({ id }: Model) => id === options.defaultModel;
    const byId = new Map<string, Model>();
    for (const entry of [...all.filter(isDefault), ...all]) byId.set(entry.id, entry);
    return [...byId.values()];
  };
}

async function askProvider(provider: HttpProvider, options: ModelListOptions): Promise<Model[]> {
  const { send, timeoutMs = 2_000 } = options;
  const answer = await send(provider, {
    endpoint: "models",
    signal: AbortSignal.timeout(timeoutMs),
  });
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of answer.body) {
    size += piece.length;
    if (size > MAX_LIST_BYTES) throw new RangeError("The model list is too long.");
    pieces.push(piece);
  }
  if (answer.status !== 200) throw new RangeError(`The model list has status ${answer.status}.`);
  const { data } = listedModels.parse(JSON.parse(Buffer.concat(pieces).toString()));
  return data.map(({ id, created }) => {
    const name = provider.modelName?.(id) ?? id;
    return model(
      provider,
      "prefix" in provider.models ? `${provider.models.prefix}/${name}` : name,
      created,
    );
  });
}

function model(provider: Provider, id: string, created = 0): Model {
  return { id, object: "model", created, owned_by: provider.name };
}
