import { apiKey, baseUrl, bearer, defineProvider } from "../provider.ts";

/** Version of the provider's native wire, which its model list needs. */
const NATIVE_VERSION = "2023-06-01";

/**
 * A hosted provider with an OpenAI-compatible chat endpoint. It has no embeddings, and its model
 * list is of its native wire, which takes the key in a header of its own.
 */
export const anthropic = defineProvider({
  variable: "ANTHROPIC_API_KEY",
  environment: {
    ANTHROPIC_API_KEY: apiKey,
    ANTHROPIC_BASE_URL: baseUrl.default("https://api.anthropic.com/v1"),
  },
  configure({ ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL }) {
    if (key === undefined) return undefined;
    return {
      name: "anthropic",
      models: { prefix: "anthropic" },
      defaultModel: "anthropic/claude-3-5-sonnet",
      endpoints: ["chat/completions", "models"],
      baseUrl: ANTHROPIC_BASE_URL,
      headers: (endpoint) =>
        endpoint === "models"
          ? { "x-api-key": key, "anthropic-version": NATIVE_VERSION }
          : bearer(key),
      secrets: [key],
    };
  },
});
