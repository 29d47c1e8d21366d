import { apiKey, baseUrl, bearer, defineProvider } from "../provider.ts";

/** A hosted provider with OpenAI-compatible endpoints beside its native ones. */
export const gemini = defineProvider({
  variable: "GEMINI_API_KEY",
  environment: {
    GEMINI_API_KEY: apiKey,
    GEMINI_BASE_URL: baseUrl.default("https://generativelanguage.googleapis.com/v1beta/openai"),
  },
  configure({ GEMINI_API_KEY: key, GEMINI_BASE_URL }) {
    if (key === undefined) return undefined;
    return {
      name: "gemini",
      models: { prefix: "gemini" },
      defaultModel: "gemini/gemini-2.0-flash",
      endpoints: ["chat/completions", "embeddings", "models"],
      baseUrl: GEMINI_BASE_URL,
      headers: () => bearer(key),
      secrets: [key],
      // Its list says `models/gemini-…`, which is how its native wire names a model.
      modelName: (listedId) => listedId.replace(/^models\//, ""),
    };
  },
});
