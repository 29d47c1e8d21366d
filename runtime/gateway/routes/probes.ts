import { Hono } from "hono";
import type { GatewayEnv } from "../gateway-env.ts";

/** True while this program takes new calls. */
export interface Readiness {
  ready: boolean;
}

/**
 * The gateway's own probes. They answer on every host name: a kubelet asks by the pod's address.
 */
export function probeRoutes(readiness: Readiness): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  app.get("/live", (c) => c.json({ status: "ok" }));
  app.get("/health", (c) => c.json({ status: "ok" }));
  app.get("/ready", (c) =>
    readiness.ready ? c.json({ status: "ok" }) : c.json({ status: "stopping" }, 503),
  );
  return app;
}
