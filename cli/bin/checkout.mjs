// Plain JavaScript without packages, as all of bin/: it runs before anything is installed, on Node 20.
import { accessSync, constants, existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The checkout that `npm install -g ./cli` has linked to. */
export const checkout = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** Whether the sources that agentctl shares with the platform lie beside it. */
export const isCheckout = () => existsSync(`${checkout}/runtime/common/errors.ts`);

/** Whether `npm ci` has been run there. */
export const hasPackages = () => existsSync(`${checkout}/node_modules/zod/package.json`);

/** The Node of the checkout's packages, if it is there. */
export function pinnedNode() {
  const path = `${checkout}/node_modules/.bin/node`;
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return undefined;
  }
}
