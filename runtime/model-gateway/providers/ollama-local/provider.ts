import { defineProvider, serverUrl } from "../provider.ts";

/** A model server on the host of the platform. It has no keys. */
export const ollamaLocal = defineProvider({
  variable: "OLLAMA_LOCAL_HOST",
  environment: { OLLAMA_LOCAL_HOST: serverUrl.optional() },
  configure({ OLLAMA_LOCAL_HOST: url }) {
    if (url === undefined) return undefined;
    return {
      name: "ollama",
      models: { prefix: "ollama" },
      defaultModel: "ollama/llama3.2",
      endpoints: ["chat/completions", "embeddings", "models"],
      baseUrl: url,
      headers: () => ({}),
      secrets: [],
    };
  },
});
