import { z } from "zod";
import { readEnvironment } from "../../common/configuration.ts";
import type { Send } from "../transport.ts";

/** The endpoints of the OpenAI wire that a provider may have, as paths below its base URL. */
export type Endpoint = "chat/completions" | "embeddings" | "models";

interface ProviderIdentity {
  /** What logs, spans and the usage table call it. */
  name: string;
  /**
   * The model ids that it serves: all of one prefix (`openai/…`), or an exact list without one, so
   * that unknown names still fail.
   */
  models: { prefix: string } | { exact: readonly string[] };
  /** The model id, as clients write it, that this provider offers as `DEFAULT_LLM_MODEL`. */
  defaultModel: string;
  endpoints: readonly Endpoint[];
}

/** A provider that is reached over HTTP. */
export interface HttpProvider extends ProviderIdentity {
  /** Without a trailing slash; endpoints are appended to it. */
  baseUrl: string;
  /** Credentials, and nothing else, for one endpoint. */
  headers(endpoint: Endpoint): Record<string, string>;
  /** What must never reach a client: cut out of every error that the provider answers with. */
  secrets: readonly string[];
  /** Turns an id of the provider's own model list into the name that its endpoints take. */
  modelName?(listedId: string): string;
}

/** A provider that answers inside this process. */
export interface InProcessProvider extends ProviderIdentity {
  send: Send;
  secrets: readonly [];
}

export type Provider = HttpProvider | InProcessProvider;

/** A kind of provider: which variables configure it, and what they make of it. */
export interface ProviderDefinition {
  /** The variable whose presence turns the provider on. */
  variable: string;
  /** All variables that it reads, that one among them. */
  settings: readonly string[];
  /**
   * @returns the provider, or undefined where the environment doesn't ask for it.
   * @throws UserError that names a wrong variable.
   */
  configure(environment: NodeJS.ProcessEnv): Provider | undefined;
}

/** Makes a definition whose `configure` gets the validated variables of `environment`. */
export function defineProvider<Shape extends z.ZodRawShape>(definition: {
  variable: Extract<keyof Shape, string>;
  environment: Shape;
  configure(environment: z.output<z.ZodObject<Shape>>): Provider | undefined;
}): ProviderDefinition {
  const schema = z.object(definition.environment);
  return {
    variable: definition.variable,
    settings: Object.keys(definition.environment),
    configure: (environment) => definition.configure(readEnvironment(schema, environment)),
  };
}

/** A provider's key: one line of printable characters, since it becomes a header. */
export const apiKey = z
  .string()
  .trim()
  .regex(/^[\x21-\x7e]+$/, "must be one word of printable ASCII characters")
  .optional();

/** A base URL, made to end without a slash. */
export const baseUrl = z.string().transform(httpUrl);

/**
 * A server that people name by host alone (`http://127.0.0.1:11434`): with or without the scheme, a
 * trailing slash, or the `/v1` of its OpenAI endpoints.
 */
export const serverUrl = z
  .string()
  .transform((value) => (value.includes("://") ? value : `http://${value}`))
  .transform(httpUrl)
  .transform((url) => (url.endsWith("/v1") ? url : `${url}/v1`));

/** The header that the OpenAI wire carries a key in. */
export const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

function httpUrl(value: string, context: z.RefinementCtx): string {
  const url = URL.parse(value);
  const usable =
    url !== null &&
    /^https?:$/.test(url.protocol) &&
    `${url.username}${url.password}${url.search}${url.hash}` === "";
  if (usable) return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
  context.addIssue({
    code: "custom",
    message: "must be an http or https URL without credentials, query or fragment",
  });
  return z.NEVER;
}
