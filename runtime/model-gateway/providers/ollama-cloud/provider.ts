import { z } from "zod";
import { apiKey, baseUrl, bearer, defineProvider } from "../provider.ts";

const DEFAULT_MODEL = "gpt-oss:20b";
/** What the cloud offered when this was written; `OLLAMA_CLOUD_MODELS` replaces it, a name that Ollama itself has not. */
const MODELS = [
  DEFAULT_MODEL,
  "gpt-oss:120b",
  "deepseek-v3.1:671b",
  "kimi-k2:1t",
  "qwen3-coder:480b",
];

const modelNames = z
  .string()
  .transform((value) =>
    value
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== ""),
  )
  .pipe(z.array(z.string()).nonempty("must name at least one model"));

/** The hosted cloud of open models. Its names have no prefix, so it serves an exact list of them. */
export const ollamaCloud = defineProvider({
  variable: "OLLAMA_API_KEY",
  environment: {
    OLLAMA_API_KEY: apiKey,
    OLLAMA_BASE_URL: baseUrl.default("https://ollama.com/v1"),
    OLLAMA_CLOUD_MODELS: modelNames.optional(),
  },
  configure({ OLLAMA_API_KEY: key, OLLAMA_BASE_URL, OLLAMA_CLOUD_MODELS: names = MODELS }) {
    if (key === undefined) return undefined;
    return {
      name: "ollama-cloud",
      models: { exact: names },
      defaultModel: names.includes(DEFAULT_MODEL) ? DEFAULT_MODEL : (names[0] ?? DEFAULT_MODEL),
      endpoints: ["chat/completions"],
      baseUrl: OLLAMA_BASE_URL,
      headers: () => bearer(key),
      secrets: [key],
    };
  },
});
