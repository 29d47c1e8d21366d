import { HttpError, unauthorized } from "../../common/errors.ts";
import type { Identity } from "../../common/identity.ts";

/** Who makes a call by a token, and what the token is good for. */
export interface TokenIdentity extends Identity {
  /** The only graph that it may call; any, if it names none. */
  graphId?: string;
}

/** Turns a bearer token into who makes the call. */
export interface TokenVerifier {
  /**
   * @throws HttpError 401 for a token that isn't valid, 503 where that can't be found out now.
   */
  verify(token: string): Promise<TokenIdentity>;
}

export const invalidToken = () =>
  unauthorized(
    "The token is not valid or has expired. Send a current one as `Authorization: Bearer <token>`.",
  );

/** Accepts what any of the verifiers accepts, asked in their order. */
export function anyOf(verifiers: readonly TokenVerifier[]): TokenVerifier {
  return {
    async verify(token) {
      for (const verifier of verifiers) {
        try {
          return await verifier.verify(token);
        } catch (error) {
          if (!(error instanceof HttpError) || error.status !== 401) throw error;
        }
      }
      throw invalidToken();
    },
  };
}
