import { UserError } from "../../runtime/common/errors.ts";
import { OWN_REGISTRY } from "../node-reference.ts";
import { CommandFailed, run } from "./commands.ts";

/** Whether Docker has the image, so that nothing needs to be pulled. */
export async function hasImage(image: string): Promise<boolean> {
  try {
    await run("docker", ["image", "inspect", "--format", "{{.Id}}", image]);
    return true;
  } catch (error) {
    if (error instanceof CommandFailed) return false;
    throw error;
  }
}

/** @throws UserError where the image is not in Docker and can't be had. */
export async function pullIfMissing(image: string): Promise<void> {
  if (await hasImage(image)) return;
  if (image.startsWith(`${OWN_REGISTRY}/`)) {
    throw new UserError(
      "image_lost",
      `The image ${image}, which this stack built, is not in Docker any more.`,
      "Run ./install.sh: it builds what is lost.",
    );
  }
  try {
    await run("docker", ["pull", "--quiet", image]);
  } catch (error) {
    throw new UserError(
      "image_pull",
      `The image ${image} is not in Docker and can't be pulled: ${(error as Error).message}`,
      "Check the network, load the image into Docker, or name another one in platform:images.",
    );
  }
}
