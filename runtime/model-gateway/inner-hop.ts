import { HttpError } from "../common/errors.ts";
import { ASSERTION_HEADER, type AssertionVerifier, FRONT_DOOR_HEADER } from "../common/identity.ts";
import type { IsInnerHop } from "../common/telemetry.ts";

/**
 * Tells the platform's own calls from others: the front door proves itself, and a worker has the
 * assertion of the run that it makes the call for. Their traces go on here; a consumer token alone,
 * which anyone may hold, continues none.
 */
export function createIsInnerHop(verifier: AssertionVerifier): IsInnerHop {
  return async (c) => {
    const proof = c.req.header(FRONT_DOOR_HEADER);
    if (proof !== undefined && (await verifier.isFrontDoor(proof))) return true;
    const assertion = c.req.header(ASSERTION_HEADER);
    return assertion !== undefined && isValid(verifier, assertion);
  };
}

async function isValid(verifier: AssertionVerifier, assertion: string): Promise<boolean> {
  try {
    await verifier.attribute(assertion);
    return true;
  } catch (error) {
    // The call itself is refused where its caller is identified.
    if (error instanceof HttpError) return false;
    throw error;
  }
}
