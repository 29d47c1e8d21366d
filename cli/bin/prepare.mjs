// Run by npm when agentctl is linked: a checkout that has no packages yet gets them.
import { spawnSync } from "node:child_process";
import { checkout, hasPackages, isCheckout } from "./checkout.mjs";

if (isCheckout() && !hasPackages()) {
  // npm hands its own settings (global, prefix…) on to scripts; they are not meant for the checkout.
  const ours = /^npm_config_(global|location|prefix|local_prefix|global_prefix)$/i;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
  const { status } = spawnSync("npm", ["ci"], { cwd: checkout, env, stdio: "inherit" });
  process.exitCode = status ?? 1;
}
