import { join } from "node:path";
import type * as pulumi from "@pulumi/pulumi";
import type { DeclaredAgent } from "../runtime/embedded/agents.ts";
import { Image, type ImageTarget } from "./image.ts";

/** Our programs that run as images, by the folder of `runtime/` that each has. */
const PROGRAMS = ["gateway", "model-gateway", "provisioner", "worker"] as const;
export type ProgramName = (typeof PROGRAMS)[number];

export interface OurImagesArgs {
  checkout: string;
  version: string;
  baseImage: string;
  target: ImageTarget;
}

/** Builds the images of the platform's own programs. */
export function programImages(args: OurImagesArgs): Record<ProgramName, Image> {
  const image = (program: ProgramName) =>
    new Image(program, {
      imageName: program,
      version: args.version,
      context: args.checkout,
      dockerfile: `runtime/${program}/Dockerfile`,
      sources: [
        "package.json",
        "package-lock.json",
        ".dockerignore",
        "runtime/common",
        `runtime/${program}`,
      ],
      buildArgs: { BASE_IMAGE: args.baseImage },
      target: args.target,
    });
  return {
    gateway: image("gateway"),
    "model-gateway": image("model-gateway"),
    provisioner: image("provisioner"),
    worker: image("worker"),
  };
}

/** Builds the image of one agent of `agents/`: the worker's image and its graph. */
export function agentImage(
  agent: DeclaredAgent,
  workerImage: pulumi.Input<string>,
  args: OurImagesArgs,
): Image {
  const { graphId } = agent;
  return new Image(`agent-${graphId}`, {
    imageName: `agent-${graphId}`,
    version: args.version,
    context: args.checkout,
    dockerfile: "agents/Dockerfile",
    sources: [join("agents", `${graphId}.ts`), join("agents", graphId), ".dockerignore"],
    buildArgs: { WORKER_IMAGE: workerImage, AGENT: graphId },
    target: args.target,
  });
}
