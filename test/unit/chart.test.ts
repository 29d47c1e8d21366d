import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { loadYaml } from "@kubernetes/client-node";
import { expect } from "chai";

const ROOT = resolve(import.meta.dirname, "../..");
const text = (path: string) => readFile(resolve(ROOT, path), "utf8");

interface Schema {
  properties?: Record<string, Schema>;
  additionalProperties?: unknown;
  items?: Schema;
  definitions?: Record<string, Schema>;
  $ref?: string;
}

describe("the chart of an agent", () => {
  let schema: Schema;
  let values: object;

  before(async () => {
    schema = JSON.parse(await text("charts/platform-agent/values.schema.json"));
    values = loadYaml(await text("charts/platform-agent/values.yaml"));
  });

  it("is of the platform's version", async () => {
    const chart = loadYaml(await text("charts/platform-agent/Chart.yaml"));
    const { version } = JSON.parse(await text("package.json"));
    expect(chart).to.include({ apiVersion: "v2", name: "platform-agent", appVersion: version });
  });

  it("has the fields that the specification names", () => {
    expect(pathsOf(values)).to.include.members([
      "graphId",
      "sharedRoute.host",
      "image.repository",
      "image.tag",
      "platform.releaseName",
      "redis.prefix",
      "runtimeClassName",
      "extraEnv",
    ]);
  });

  it("has a default for every field of its schema, and no field beside them", () => {
    const { global: _, ...properties } = schema.properties ?? {};
    expect(pathsOf(values)).to.have.members(leavesOf({ properties }));
  });

  it("refuses unknown fields wherever it names fields", () => {
    for (const part of partsOf(schema)) {
      if (part.properties === undefined || part.additionalProperties === false) continue;
      expect.fail(`open: ${Object.keys(part.properties).join(", ")}`);
    }
  });

  it("explains each field in its README", async () => {
    const readme = await text("charts/platform-agent/README.md");
    for (const path of pathsOf(values)) expect(readme).to.include(`\`${path}\``);
  });

  it("waives no judge's check without a reason", async () => {
    const rows = (await text("charts/waivers.md"))
      .split("\n")
      .filter((line) => /^\| (?!tool |-)/.test(line))
      .map((line) => line.split("|").map((cell) => cell.trim()));
    expect(rows).to.not.have.lengthOf(0);
    for (const [, tool, check, reason] of rows) {
      expect(tool).to.match(/^(kube-linter|kube-score|checkov)(\/platform)?$/);
      expect(check).to.match(/^`[\w-]+`$/);
      expect(reason).to.match(/\.$/);
    }
  });
});

/** Dotted paths of the values' leaves; an empty object is one. */
function pathsOf(value: object, prefix = ""): string[] {
  return Object.entries(value).flatMap(([key, inner]) =>
    OPEN_ENDED.has(prefix + key) || Array.isArray(inner) || typeof inner !== "object"
      ? [prefix + key]
      : pathsOf(inner, `${prefix}${key}.`),
  );
}

function leavesOf(part: Schema, prefix = ""): string[] {
  return Object.entries(part.properties ?? {}).flatMap(([key, inner]) =>
    OPEN_ENDED.has(prefix + key) || inner.properties === undefined
      ? [prefix + key]
      : leavesOf(inner, `${prefix}${key}.`),
  );
}

/** Objects whose keys are the user's own, or Kubernetes'. */
const OPEN_ENDED = new Set([
  "deploymentAnnotations",
  "serviceAnnotations",
  "podLabels",
  "podAnnotations",
  "nodeSelector",
  "affinity",
  "resources.requests",
  "resources.limits",
]);

function* partsOf(part: Schema): Generator<Schema> {
  yield part;
  const inner = [
    ...Object.values(part.properties ?? {}),
    ...Object.values(part.definitions ?? {}),
    ...(part.items === undefined ? [] : [part.items]),
  ];
  for (const each of inner) yield* partsOf(each);
}
