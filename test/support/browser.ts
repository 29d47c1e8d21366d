import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
/** No sandbox, for a container's root; nothing that calls home. */
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts the machine's own Chromium: `CHROMIUM_PATH`, or the first of its usual names on PATH. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: findChromium(), headless: true, args: ARGUMENTS });
}

function findChromium(): string {
  const named = process.env.CHROMIUM_PATH;
  if (named) return named;
  for (const directory of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of NAMES) {
      const path = join(directory, name);
      if (isExecutable(path)) return path;
    }
  }
  throw new Error(
    "The browser tests need Chromium. Install it (Debian: apt-get install chromium; macOS: brew install --cask chromium), or name one with CHROMIUM_PATH.",
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
