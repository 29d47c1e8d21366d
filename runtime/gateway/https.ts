import type { Context } from "hono";

/** Whether the browser speaks TLS, if only with a load balancer in front of us. */
export function isHttps(c: Context): boolean {
  return c.req.url.startsWith("https:") || c.req.header("x-forwarded-proto") === "https";
}
