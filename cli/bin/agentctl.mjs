#!/usr/bin/env node
// Finds a Node that runs TypeScript as it is: this one, or the one of the checkout's packages.
// docs/decisions/0003-agentctl-runs-from-its-checkout.md says why.
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { checkout, hasPackages, isCheckout, pinnedNode } from "./checkout.mjs";

const runsTypeScript = Boolean(process.features.typescript);
const isTried = runsTypeScript && Number.parseInt(process.versions.node, 10) >= 24;

if (!isCheckout()) {
  fail("agentctl was copied away from its checkout.", "Link it: npm install -g ./cli");
} else if (!hasPackages()) {
  fail(
    "The packages of agentctl's checkout are missing.",
    `Install them: cd ${checkout} && npm ci`,
  );
} else if (isTried) {
  await import("../main.ts");
} else {
  const node = pinnedNode();
  if (node !== undefined) runWith(node);
  else if (runsTypeScript) await import("../main.ts");
  else {
    fail(
      `agentctl needs Node 22.19 or newer, and this is ${process.versions.node}.`,
      `Install one, or let npm fetch the platform's own: cd ${checkout} && npm rebuild node --ignore-scripts=false`,
    );
  }
}

/** Hands over everything: arguments, streams, signals and the way it ends. */
function runWith(node) {
  const main = fileURLToPath(new URL("../main.ts", import.meta.url));
  const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: "inherit" });
  // Ctrl-C reaches the child from the terminal by itself; here it must only not end the wait.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.once("error", (error) => fail(`${node} does not start: ${error.message}`, "Run npm ci."));
  child.once("close", (code, signal) => {
    process.exitCode = code ?? 128 + (constants.signals[signal] ?? 0);
  });
}

function fail(message, hint) {
  console.error(`Error: ${message}\n${hint}`);
  process.exitCode = 1;
}
