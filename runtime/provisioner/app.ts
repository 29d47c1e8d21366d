import { Hono } from "hono";
import type { Logger } from "../common/logging.ts";
import type { Standing } from "./leader.ts";

export interface AppDependencies {
  /** What this replica does now. */
  standing: () => Standing | "stopping";
  /** False while the leader does not know all agents yet. */
  isSynced: () => boolean;
  logger: Logger;
}

/** The provisioner's probes; it answers nothing else. */
export function createApp({ standing, isSynced, logger }: AppDependencies): Hono {
  const app = new Hono();
  app.onError((error, c) => {
    logger.error({ err: error }, "a probe failed");
    return c.json({ status: "error" }, 500);
  });
  app.get("/live", (c) => c.json({ status: "ok" }));
  app.get("/health", (c) => c.json({ status: "ok" }));
  app.get("/ready", (c) => {
    const current = standing();
    const isReady = current === "standby" || (current === "leader" && isSynced());
    return c.json({ status: isReady ? "ok" : "not ready", standing: current }, isReady ? 200 : 503);
  });
  return app;
}
