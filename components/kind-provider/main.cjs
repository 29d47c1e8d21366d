// Pulumi loads a provider with require(); ours are ES modules that Node runs without a build.
const { main } = require("@pulumi/pulumi/provider");

import("./provider.ts").then(
  ({ KindLocalProvider }) => main(new KindLocalProvider(), process.argv.slice(2)),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
