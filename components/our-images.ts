import { basename, dirname, join, resolve, sep } from "node:path";
import type * as pulumi from "@pulumi/pulumi";
import { UserError } from "../runtime/common/errors.ts";
import type { DeclaredAgent } from "../runtime/embedded/agents.ts";
import { agentContext } from "./agent-context.ts";
import { releaseNameOf } from "./agent-names.ts";
import { Image } from "./image.ts";
import type { StackConfiguration } from "./stack-configuration.ts";
import { imageOf, type TargetCluster, thirdPartyImages } from "./target-cluster.ts";

/** Our programs that run as images, by the folder of `runtime/` that each has. */
const PROGRAMS = ["gateway", "model-gateway", "provisioner", "worker"] as const;
export type ProgramName = (typeof PROGRAMS)[number];

/** The key of an agent's image among those delivered. */
export function agentImageName(graphId: string): string {
  return `agent-${releaseNameOf(graphId)}`;
}

/**
 * Builds what is ours and brings it and everything else to the nodes.
 *
 * @returns The reference by which pods get an image: of a program, an agent or a third party.
 */
export function deliverImages(
  { checkout, data }: { checkout: string; data: string },
  configuration: StackConfiguration,
  agents: DeclaredAgent[],
  cluster: TargetCluster,
): (name: string) => pulumi.Input<string> {
  const building = {
    checkout,
    agentContexts: join(data, "agents"),
    version: configuration.version,
    baseImage: imageOf(configuration, "base"),
    platform: configuration.imagePlatform,
    registry: cluster.registry,
  };
  const programs = programImages(building);
  const ofAgents = agents.map((agent) => [
    agentImageName(agent.graphId),
    agentImage(agent, programs.worker.localName, building).reference,
  ]);
  return cluster.deliver({
    ...thirdPartyImages(configuration),
    ...programs.references,
    ...Object.fromEntries(ofAgents),
  });
}

export interface OurImagesArgs {
  checkout: string;
  /** A folder for the build contexts of agents. */
  agentContexts: string;
  version: string;
  baseImage: string;
  platform: string | undefined;
  registry: string | undefined;
}

/** Builds the images of the platform's own programs. */
export function programImages(args: OurImagesArgs): {
  worker: Image;
  references: Record<ProgramName, pulumi.Output<string>>;
} {
  const runtime = runtimeImage(args);
  const images = Object.fromEntries(
    PROGRAMS.map((program) => [
      program,
      new Image(program, {
        imageName: program,
        version: args.version,
        context: join(args.checkout, "runtime", program),
        sources: ["."],
        buildArgs: { RUNTIME_IMAGE: runtime.localName },
        platform: args.platform,
        registry: args.registry,
      }),
    ]),
  ) as Record<ProgramName, Image>;
  const references = Object.fromEntries(
    PROGRAMS.map((program) => [program, images[program].reference]),
  ) as Record<ProgramName, pulumi.Output<string>>;
  return { worker: images.worker, references };
}

/** Builds what the programs' images have in common. It is no image of any pod, so it stays here. */
function runtimeImage(args: OurImagesArgs): Image {
  return new Image("runtime", {
    imageName: "runtime",
    version: args.version,
    context: args.checkout,
    dockerfile: "runtime/Dockerfile",
    sources: ["package.json", "package-lock.json", "runtime/common"],
    buildArgs: { BASE_IMAGE: args.baseImage },
    platform: args.platform,
    registry: undefined,
  });
}

/** Builds the image of one agent of `agents/`: the worker's image and its graph. */
export function agentImage(
  agent: DeclaredAgent,
  workerImage: pulumi.Input<string>,
  args: OurImagesArgs,
): Image {
  const name = agentImageName(agent.graphId);
  const file = basename(agent.file, ".ts");
  checkGraphFolder(agent, file);
  return new Image(name, {
    imageName: name,
    version: args.version,
    context: agentContext(join(args.checkout, "agents"), file, args.agentContexts),
    sources: [`${file}.ts`, file],
    buildArgs: { WORKER_IMAGE: workerImage, AGENT: file },
    platform: args.platform,
    registry: args.registry,
  });
}

/** An image has of an agent its declaration and the folder of the same name. */
function checkGraphFolder({ file, graph }: DeclaredAgent, name: string): void {
  const folder = join(dirname(file), name);
  if (resolve(dirname(file), graph).startsWith(`${folder}${sep}`)) return;
  throw new UserError(
    "agent_layout",
    `${file}: its graph has to lie in ${folder}, all of which goes into the agent's image; it is ${graph}.`,
    `Move it there, with what it imports: graph: "./${name}/graph.ts:graph".`,
  );
}
