import { forbidden, HttpError } from "../common/errors.ts";
import { type AssertionVerifier, bearerToken } from "../common/identity.ts";
import type { ConsumerTokens } from "./consumer-tokens.ts";

/** Whom a call is for, and by which agent. */
export interface Caller {
  tenant: string;
  /** Graph id; null for a token of no agent in particular. */
  agent: string | null;
}

/**
 * @param authorization The header with the consumer token, which admits the call.
 * @param assertion The identity assertion of the run that the call is part of, if it is part of one:
 *   it says for which tenant the agent works just now.
 */
export type IdentifyCaller = (
  authorization: string | undefined,
  assertion: string | undefined,
) => Promise<Caller>;

/** Makes the check of who calls: 401 without a good token, 403 for another agent's assertion. */
export function createIdentifyCaller(
  tokens: ConsumerTokens,
  verifier: AssertionVerifier,
): IdentifyCaller {
  return async (authorization, assertion) => {
    const token = bearerToken(authorization);
    if (token === undefined) {
      throw invalidToken("No consumer token was given. Send it as Authorization: Bearer <token>.");
    }
    const consumer = await tokens.find(token);
    if (consumer === undefined) throw invalidToken("The consumer token is not valid.");
    if (assertion === undefined) return consumer;
    const { tenant, graphId } = await verifier.attribute(assertion);
    if (consumer.agent !== null && consumer.agent !== graphId) {
      throw forbidden(`The consumer token is for agent ${consumer.agent}, the run for another.`);
    }
    return { tenant, agent: graphId };
  };
}

const invalidToken = (message: string) =>
  new HttpError(401, "invalid_api_key", message, { headers: { "www-authenticate": "Bearer" } });
