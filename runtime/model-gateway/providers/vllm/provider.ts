import { defineProvider, serverUrl } from "../provider.ts";

/** A self-hosted inference server, started with `--served-model-name default` for the default. */
export const vllm = defineProvider({
  variable: "VLLM_BACKEND_URL",
  environment: { VLLM_BACKEND_URL: serverUrl.optional() },
  configure({ VLLM_BACKEND_URL: url }) {
    if (url === undefined) return undefined;
    return {
      name: "vllm",
      models: { prefix: "vllm" },
      defaultModel: "vllm/default",
      endpoints: ["chat/completions", "embeddings", "models"],
      baseUrl: url,
      headers: () => ({}),
      secrets: [],
    };
  },
});
