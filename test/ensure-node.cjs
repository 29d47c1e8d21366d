// Run by whatever Node there is: npm may hold back the install script that fetches ours.
const { execSync } = require("node:child_process");
const { node: pinned } = require("../package.json").devDependencies;

if (process.versions.node !== pinned) {
  console.log(`Node ${pinned} is not in node_modules/.bin yet: npm rebuild node`);
  execSync("npm rebuild node --ignore-scripts=false", { stdio: "inherit" });
}
