import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { loadAllYaml, type V1CustomResourceDefinition } from "@kubernetes/client-node";
import { z } from "zod";

/*
 * Makes a folder of schemas that kubeconform can use without a network: Kubernetes' own out of the
 * Python package kubernetes-validate, and those of custom resources out of their definitions.
 */

/** Points the package's schemas at each other as files: as they are, they name a web address. */
async function copyKubernetesSchemas(from: string, to: string): Promise<void> {
  for (const name of await readdir(from)) {
    const schema = JSON.parse(await readFile(join(from, name), "utf8"));
    delete schema.$id;
    const text = JSON.stringify(schema).replaceAll(
      '"$ref":"/api/_definitions.json',
      '"$ref":"_definitions.json',
    );
    await writeFile(join(to, name), text);
  }
}

/** File names as kubeconform's `{{.ResourceKind}}{{.KindSuffix}}` has them. */
async function writeCustomSchemas(definitions: string, to: string): Promise<void> {
  for (const document of loadAllYaml(await readFile(definitions, "utf8"))) {
    if (document.kind !== "CustomResourceDefinition") continue;
    const { group, names, versions } = (document as V1CustomResourceDefinition).spec;
    for (const { name, schema } of versions) {
      const file = `${names.kind.toLowerCase()}-${group.split(".")[0]}-${name}.json`;
      await writeFile(join(to, file), JSON.stringify(strict(schema?.openAPIV3Schema)));
    }
  }
}

/**
 * An object with named fields has no others, as the API server warns. The client's names for words
 * that TypeScript reserves (`_enum`, `_not`) become JSON Schema's again.
 */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (schema === null || typeof schema !== "object") return schema;
  const inner = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key.replace(/^_/, ""), strict(value)]),
  );
  const isRoot = "properties" in schema && "kind" in Object(schema.properties);
  const isClosed = "properties" in schema && !("additionalProperties" in schema) && !isRoot;
  return isClosed ? { ...inner, additionalProperties: false } : inner;
}

const { values } = parseArgs({
  options: {
    kubernetes: { type: "string" },
    definitions: { type: "string" },
    out: { type: "string" },
  },
});
const args = z
  .object({ kubernetes: z.string(), definitions: z.string().optional(), out: z.string() })
  .parse(values);
await mkdir(args.out, { recursive: true });
await copyKubernetesSchemas(args.kubernetes, args.out);
if (args.definitions !== undefined) await writeCustomSchemas(args.definitions, args.out);
