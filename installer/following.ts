import type { EngineEvent } from "@pulumi/pulumi/automation/index.js";

/** How each of Pulumi's operations is followed and stopped. */
export interface Following {
  onEvent(event: EngineEvent): void;
  onOutput?: (text: string) => void;
  signal: AbortSignal;
  color: "never";
}
