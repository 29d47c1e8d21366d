import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import { OWN_REGISTRY } from "./node-reference.ts";

export interface ImageArgs {
  /** Last part of the image's name, e.g. `gateway`. */
  imageName: string;
  version: string;
  /** The build context. */
  context: string;
  /** The Dockerfile, relative to the context; by default its `Dockerfile`. */
  dockerfile?: string;
  /**
   * What of the context makes the image: paths relative to it. Their content makes the tag, as do
   * the Dockerfile and `.dockerignore`.
   */
  sources: string[];
  buildArgs: Record<string, pulumi.Input<string>>;
  /** The nodes' processor, e.g. `linux/amd64`; undefined: that of the Docker which builds. */
  platform: string | undefined;
  /** Where nodes pull it from; undefined: it stays in the local Docker. */
  registry: string | undefined;
}

/** An image of ours: built by the stack, named by its content, so that a changed source rolls pods. */
export class Image extends pulumi.ComponentResource {
  /** What a Dockerfile on this machine has to say to build upon it. */
  readonly localName: pulumi.Output<string>;
  /** By tag of its content, or by digest once it is pushed. */
  readonly reference: pulumi.Output<string>;

  constructor(name: string, args: ImageArgs, opts?: pulumi.ComponentResourceOptions) {
    super("platform:image:Image", name, {}, opts);
    const repository = `${args.registry ?? OWN_REGISTRY}/${args.imageName}`;
    const dockerfile = args.dockerfile ?? "Dockerfile";
    const sources = [...args.sources, dockerfile, ".dockerignore"];
    const platform = { ...(args.platform !== undefined && { platform: args.platform }) };
    const content = pulumi
      .output(args.buildArgs)
      .apply((buildArgs) => contentHash(args.context, sources, { ...buildArgs, ...platform }));
    const image = new docker.Image(
      `${name}-build`,
      {
        imageName: pulumi.interpolate`${repository}:${args.version}-${content}`,
        build: {
          context: args.context,
          dockerfile: join(args.context, dockerfile),
          args: args.buildArgs,
          ...platform,
        },
        skipPush: args.registry === undefined,
      },
      { parent: this },
    );
    this.localName = image.imageName;
    this.reference = args.registry === undefined ? image.imageName : image.repoDigest;
    this.registerOutputs({ reference: this.reference, localName: this.localName });
  }
}

/** Twelve digits that change when a file, its name or an argument of the build does. */
export function contentHash(
  context: string,
  sources: string[],
  buildArgs: Record<string, string>,
): string {
  const hash = createHash("sha256").update(JSON.stringify(buildArgs));
  for (const source of sources) {
    for (const file of filesBelow(join(context, source))) {
      hash.update(`\0${relative(context, file)}\0`).update(readFileSync(file));
    }
  }
  return hash.digest("hex").slice(0, 12);
}

function filesBelow(path: string): string[] {
  if (statSync(path).isFile()) return [path];
  return readdirSync(path)
    .filter((name) => name !== "node_modules" && !name.startsWith("."))
    .sort()
    .flatMap((name) => filesBelow(join(path, name)));
}
