import { apiKey, baseUrl, bearer, defineProvider } from "../provider.ts";

/** The hosted general provider whose wire all others speak. */
export const openai = defineProvider({
  variable: "OPENAI_API_KEY",
  environment: {
    OPENAI_API_KEY: apiKey,
    OPENAI_BASE_URL: baseUrl.default("https://api.openai.com/v1"),
  },
  configure({ OPENAI_API_KEY: key, OPENAI_BASE_URL }) {
    if (key === undefined) return undefined;
    return {
      name: "openai",
      models: { prefix: "openai" },
      defaultModel: "openai/gpt-4o-mini",
      endpoints: ["chat/completions", "embeddings", "models"],
      baseUrl: OPENAI_BASE_URL,
      headers: () => bearer(key),
      secrets: [key],
    };
  },
});
