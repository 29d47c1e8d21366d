/** First part of the names of images that stay on this machine: no registry answers to it. */
export const OWN_REGISTRY = "platform.local";

/**
 * What pods in a kind node have to say for an image of the local Docker. A reference by digest has
 * no name inside a node that it was loaded into, so it gets a tag that holds the digest.
 */
export function nodeReference(image: string): string {
  const [name = image, digest] = image.split("@sha256:");
  if (digest === undefined) return image;
  const tagged = /:[\w.-]+$/.test(name) ? name : `${name}:latest`;
  return `${OWN_REGISTRY}/${tagged}-${digest.slice(0, 12)}`;
}
