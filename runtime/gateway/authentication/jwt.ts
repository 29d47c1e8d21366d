import { errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import { z } from "zod";
import { HttpError } from "../../common/errors.ts";
import { invalidToken, type TokenVerifier } from "./token-verifier.ts";

/** Asymmetric only: neither `none` nor an HMAC keyed with a public key can pass. */
const ALGORITHMS = ["RS256", "ES256", "EdDSA"];
const CLOCK_SKEW_S = 30;

/** A claim that is there must be usable: a broken `tenant_id` never falls through to `sub`. */
const name = z.string().min(1).max(256).optional();
const claims = z.object({ tenant_id: name, org_id: name, sub: name });

export interface JwtOptions {
  keys: JWTVerifyGetKey;
  issuer: string;
  audience: string;
}

/**
 * Accepts JWTs of one issuer for one audience that expire. The tenant is the first of `tenant_id`,
 * `org_id` and `sub`.
 */
export function createJwtVerifier({ keys, issuer, audience }: JwtOptions): TokenVerifier {
  return {
    async verify(token) {
      try {
        const { payload } = await jwtVerify(token, keys, {
          algorithms: ALGORITHMS,
          issuer,
          audience,
          requiredClaims: ["exp"],
          clockTolerance: CLOCK_SKEW_S,
        });
        const { tenant_id, org_id, sub } = claims.parse(payload);
        const tenant = tenant_id ?? org_id ?? sub;
        if (tenant === undefined) throw invalidToken();
        return { tenant, subject: sub ?? tenant };
      } catch (error) {
        if (error instanceof HttpError) throw error;
        if (error instanceof errors.JOSEError || error instanceof z.ZodError) throw invalidToken();
        throw error;
      }
    },
  };
}
