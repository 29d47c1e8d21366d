// Pulumi loads a provider with require(); ours are ES modules that Node runs without a build.
const { main } = require("@pulumi/pulumi/provider");

// A terminal's Ctrl-C reaches every process. Pulumi decides what becomes of it: it lets what is under
// way end, and stops us afterwards.
process.on("SIGINT", () => {});

import("./provider.ts").then(
  ({ KindLocalProvider }) => main(new KindLocalProvider(), process.argv.slice(2)),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
