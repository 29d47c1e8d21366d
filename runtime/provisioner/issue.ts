import type { AgentRequest } from "./agent-request.ts";
import { type Credentials, generateCredentials, hashesOf, matches } from "./credentials.ts";
import { credentialsIn, type Secret } from "./credentials-secret.ts";
import { loginName } from "./names.ts";
import type { Registry } from "./registry.ts";
import type { Generation } from "./registry-records.ts";
import { scramVerifier } from "./scram.ts";

export interface IssueDeps {
  registry: Registry;
  /** How long replaced credentials go on being valid at most, in ms. */
  overlapMs: number;
  /** How long a Deployment's pods may take to be asked to end, in ms. */
  marginMs: number;
}

/** Why new credentials are issued. */
export type Cause = "first" | "rotation" | "lost";

/** Those that stand in the Secret if they are valid and wanted, else new ones. */
export async function currentCredentials(
  request: AgentRequest,
  secret: Secret | undefined,
  known: Generation[],
  deps: IssueDeps,
): Promise<{ credentials: Credentials; generations: Generation[]; cause: Cause | undefined }> {
  const current = known.find(({ revokeInMs }) => revokeInMs === null);
  const held = secret === undefined ? undefined : credentialsIn(secret);
  const cause = causeToIssue(request, current, held);
  if (held !== undefined && cause === undefined) {
    return { credentials: held, generations: known, cause };
  }
  const credentials = generateCredentials();
  const generations = await deps.registry.issue(
    request,
    {
      ...hashesOf(credentials),
      verifier: await scramVerifier(credentials.databasePassword),
      deploymentUid: request.uid,
      rotation: request.rotation,
      overlapMs: mayBeInUse(request, secret, known)
        ? deps.overlapMs
        : request.graceMs + deps.marginMs,
    },
    (generation) => loginName(request.name, generation),
  );
  return { credentials, generations, cause: cause ?? "lost" };
}

function causeToIssue(
  request: AgentRequest,
  current: Generation | undefined,
  held: Credentials | undefined,
): Cause | undefined {
  if (current === undefined || current.deploymentUid !== request.uid) return "first";
  if (request.rotation !== undefined && request.rotation !== current.rotation) return "rotation";
  if (held !== undefined && matches(held, current)) return undefined;
  return current.published ? "lost" : "first";
}

/** True where pods of this Deployment may have been started with other credentials. */
export function mayBeInUse(request: AgentRequest, secret: Secret | undefined, known: Generation[]) {
  return (
    secret !== undefined ||
    known.some(({ published, deploymentUid }) => published && deploymentUid === request.uid)
  );
}
