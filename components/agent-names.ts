import { createHash } from "node:crypto";

/** What a Helm release, and a Service named after it, may be called (RFC 1035). */
const RELEASE_NAME = /^[a-z]([a-z0-9-]{0,51}[a-z0-9])?$/;
/** Names of Kubernetes and of the platform in the agents' namespace. */
const RESERVED_NAME = /^(kubernetes|platform(-.*)?)$/;
const SLUG_LENGTH = 34;
const HASH_LENGTH = 8;

/**
 * The Kubernetes name of an agent: its release, from which the names of its objects, database role,
 * schema and image derive. A graph id that is such a name is it; of another (`my_agent`) what fits is
 * kept, and a hash of the whole tells it from its likes (`my-agent`).
 */
export function releaseNameOf(graphId: string): string {
  if (RELEASE_NAME.test(graphId) && !RESERVED_NAME.test(graphId)) return graphId;
  const slug = graphId
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, SLUG_LENGTH)
    .replace(/^-+|-+$/g, "");
  const hash = createHash("sha256").update(graphId).digest("hex").slice(0, HASH_LENGTH);
  const readable = /^[a-z]/.test(slug) ? slug : `agent-${slug}`;
  return `${readable.replace(/-$/, "")}-${hash}`;
}
