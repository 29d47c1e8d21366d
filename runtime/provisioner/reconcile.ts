import type { Logger } from "../common/logging.ts";
import { type AgentRequest, type Deployment, readAgentRequest } from "./agent-request.ts";
import type { AgentSurroundings } from "./configuration.ts";
import type { ConsumerTokens } from "./consumer-token.ts";
import type { Credentials } from "./credentials.ts";
import {
  checksumOf,
  holds,
  isMarked,
  isOurs,
  type Secret,
  secretData,
  secretManifest,
} from "./credentials-secret.ts";
import type { EventRecorder } from "./event-recorder.ts";
import { ProvisioningError, step } from "./failure.ts";
import { type Cause, currentCredentials, mayBeInUse } from "./issue.ts";
import type { AgentCluster } from "./kubernetes.ts";
import { agentKey, secretName } from "./names.ts";
import type { DatabaseRoles } from "./postgres-role.ts";
import type { RedisUsers } from "./redis-user.ts";
import type { Registry } from "./registry.ts";
import type { Generation, KnownAgent } from "./registry-records.ts";
import { revokeDue, untilNextRevocation } from "./revoke.ts";
import { isAsked, isRolledOut, rolloutAnnotations } from "./rollout.ts";

export interface ReconcileDeps {
  registry: Registry;
  cluster: AgentCluster;
  database: DatabaseRoles;
  redis: RedisUsers;
  tokens: ConsumerTokens;
  events: EventRecorder;
  surroundings: AgentSurroundings;
  /** How long replaced credentials go on being valid at most, in ms. */
  overlapMs: number;
  /** How long a Deployment's pods may take to be asked to end, in ms. */
  marginMs: number;
  logger: Logger;
}

/** A Deployment asks for what it can't have; only a change of it, or of another, helps. */
export class Refusal extends ProvisioningError {}

/**
 * Brings one agent to what its Deployment asks for, from whatever state it is in; may be repeated
 * at any time. The order is such that a crash at any point leaves no pod without access.
 *
 * @returns after how many ms there is something to do again, if nothing changes before.
 * @throws Refusal, and ProvisioningError for what may work later.
 */
export async function provision(
  deployment: Deployment,
  deps: ReconcileDeps,
): Promise<number | undefined> {
  const request = readAgentRequest(deployment);
  if ("refused" in request) throw new Refusal(request.refused);
  const { registry } = deps;
  const agent = await step("write down what the agent asks for", () => claim(request, registry));
  const secret = await step("read the agent's Secret", () => deps.cluster.secret(request));
  const known = await registry.generations(request);
  if (secret !== undefined && !isOurs(secret, request) && known.every((one) => !one.published)) {
    throw new Refusal(
      `There is already a Secret ${secretName(request.release)} that the provisioner did not make: delete it, or give the release another name.`,
    );
  }
  const { credentials, generations, cause } = await currentCredentials(
    request,
    secret,
    known,
    deps,
  );
  await grant(request, generations, deps);
  const { rollout, isWritten } = await publish(
    request,
    agent,
    { secret, credentials, known, generations },
    deps,
  );
  if (isWritten) await tell(deployment, request, cause ?? "settings", deps.events);
  await roll(deployment, request, rollout, deps);
  const revoked = await revokeDue(request, agent.name, generations, deps);
  if (revoked > 0 && !isWritten) {
    await deps.events.done(deployment, "CredentialsRevoked", "Revoked the credentials before.");
  }
  return untilNextRevocation(await registry.generations(request));
}

async function claim(request: AgentRequest, registry: Registry): Promise<KnownAgent> {
  const claimed = await registry.claim(request);
  if (!("holder" in claimed)) return claimed;
  const { namespace, release } = claimed.holder;
  throw new Refusal(
    `Graph id ${request.graphId} or prefix ${request.redisPrefix} belongs to Deployment ${agentKey(namespace, release)}: choose another, or remove that one.`,
  );
}

async function grant(
  request: AgentRequest,
  generations: Generation[],
  { database, redis, tokens, registry }: ReconcileDeps,
): Promise<void> {
  const { name, redisPrefix: prefix } = request;
  const valid = generations.filter(({ revokeInMs }) => revokeInMs === null || revokeInMs > 0);
  await step("set up the agent's database role", () =>
    database.ensure(
      name,
      valid.map(({ login, verifier }) => ({ name: login, verifier })),
    ),
  );
  await step("set up the agent's Redis user", async () => {
    if (await registry.isSecondHand(request, prefix)) await redis.clear(prefix);
    await registry.usesPrefix(request, prefix);
    await redis.ensure(
      name,
      prefix,
      valid.map(({ redisHash }) => redisHash),
    );
  });
  await step("enter the agent's model token", () =>
    tokens.ensure(
      valid.map(({ tokenHash }) => tokenHash),
      request.tenant,
      request.graphId,
    ),
  );
}

/**
 * Writes the Secret if it is not what it should be.
 *
 * @returns `rollout`: what the pod template has to carry; null where no pod has other values.
 */
async function publish(
  request: AgentRequest,
  agent: KnownAgent,
  state: {
    secret: Secret | undefined;
    credentials: Credentials;
    known: Generation[];
    generations: Generation[];
  },
  { registry, cluster, surroundings }: ReconcileDeps,
): Promise<{ rollout: string | null; isWritten: boolean }> {
  const { secret, credentials, known } = state;
  const current = state.generations.find(({ revokeInMs }) => revokeInMs === null);
  if (current === undefined) throw new ProvisioningError("The agent's credentials were retired.");
  const data = secretData(request, current.login, credentials, surroundings);
  const isSame = holds(secret, data);
  if (isSame && secret !== undefined && isMarked(secret, request)) {
    return { rollout: agent.rollout, isWritten: false };
  }
  const changed = mayBeInUse(request, secret, known) ? checksumOf(data) : null;
  const rollout = isSame ? agent.rollout : changed;
  await registry.publish(request, current.generation, rollout);
  await step("write the agent's Secret", () =>
    cluster.putSecret(request, secretManifest(request, data, secret), secret),
  );
  return { rollout, isWritten: true };
}

async function roll(
  deployment: Deployment,
  request: AgentRequest,
  rollout: string | null,
  { cluster, registry, marginMs }: ReconcileDeps,
): Promise<void> {
  if (rollout === null) return;
  if (!isAsked(deployment, rollout)) {
    await step("have the Deployment roll", () =>
      cluster.annotatePods(request, rolloutAnnotations(rollout)),
    );
  } else if (isRolledOut(deployment)) {
    // The pods before are on their way out, and use what they have until they are gone.
    await registry.rolledOut(request, request.graceMs + marginMs);
  }
}

/** Why the Secret was written, for the event that tells of it. */
const TOLD: Record<Cause | "settings", { reason: string; text: string }> = {
  first: {
    reason: "CredentialsProvisioned",
    text: "Gave the agent a database login, a Redis password and a model token of its own",
  },
  rotation: { reason: "CredentialsRotated", text: "Gave the agent new credentials, as asked" },
  lost: {
    reason: "CredentialsRotated",
    text: "Gave the agent new credentials, since its Secret was changed or deleted",
  },
  settings: { reason: "CredentialsProvisioned", text: "Brought the agent's settings up to date" },
};

async function tell(
  deployment: Deployment,
  request: AgentRequest,
  cause: keyof typeof TOLD,
  events: EventRecorder,
): Promise<void> {
  const { reason, text } = TOLD[cause];
  await events.done(deployment, reason, `${text} (Secret ${secretName(request.release)}).`);
}
