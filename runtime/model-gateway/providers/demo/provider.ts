import { z } from "zod";
import { defineProvider } from "../provider.ts";
import { sendToDemo } from "./send.ts";

/** The one model of the demo provider. */
export const DEMO_MODEL = "demo/echo";

/**
 * Answers offline and says so. Only where it is asked for by name: a platform must never look as if
 * a model had answered when none did.
 */
export const demo = defineProvider({
  variable: "DEMO_PROVIDER",
  environment: {
    DEMO_PROVIDER: z.enum(["true", "false"], 'must be "true" or "false"').default("false"),
  },
  configure({ DEMO_PROVIDER }) {
    if (DEMO_PROVIDER === "false") return undefined;
    return {
      name: "demo",
      models: { exact: [DEMO_MODEL] },
      defaultModel: DEMO_MODEL,
      endpoints: ["chat/completions", "embeddings"],
      send: sendToDemo,
      secrets: [],
    };
  },
});
