import { Hono } from "hono";
import type { GatewayEnv } from "../gateway-env.ts";

/** Whether this program takes new calls. */
export interface Readiness {
  state: "starting" | "ready" | "stopping";
}

/**
 * The gateway's own probes. They answer on every host name: a kubelet asks by the pod's address.
 */
export function probeRoutes(readiness: Readiness): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  app.get("/live", (c) => c.json({ status: "ok" }));
  app.get("/health", (c) => c.json({ status: "ok" }));
  app.get("/ready", (c) =>
    readiness.state === "ready"
      ? c.json({ status: "ok" })
      : c.json({ status: readiness.state }, 503),
  );
  return app;
}
