import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Hono } from "hono";

const stylesheet = readFileSync(new URL("./console.css", import.meta.url), "utf8");
const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#4655d6"/><path d="M3.5 4.5h6M5.5 8h7M4.5 11.5h4" stroke="#fff" stroke-width="1.8" stroke-linecap="round"/></svg>`;

/** Changes with the stylesheet, so that browsers may keep it for ever. */
const version = createHash("sha256").update(stylesheet).digest("hex").slice(0, 12);
const CACHED_FOR_EVER = "public, max-age=31536000, immutable";

export const STYLESHEET_PATH = `/assets/console.css?v=${version}`;
export const ICON_PATH = `/assets/icon.svg?v=${version}`;

/** The files that pages refer to. */
export function assetRoutes(): Hono {
  const app = new Hono();
  app.get("/assets/console.css", (c) =>
    c.body(stylesheet, 200, {
      "content-type": "text/css; charset=utf-8",
      "cache-control": CACHED_FOR_EVER,
    }),
  );
  app.get("/assets/icon.svg", (c) =>
    c.body(icon, 200, { "content-type": "image/svg+xml", "cache-control": CACHED_FOR_EVER }),
  );
  return app;
}
