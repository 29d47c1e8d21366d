import { errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import { z } from "zod";
import { HttpError } from "../../common/errors.ts";
import type { TokenIdentity } from "./token-verifier.ts";
import { invalidToken, type TokenVerifier } from "./token-verifier.ts";

/** Asymmetric only: neither `none` nor an HMAC keyed with a public key can pass. */
const ALGORITHMS = ["RS256", "ES256", "EdDSA"];
const CLOCK_SKEW_S = 30;
/**
 * A token that was checked is not checked again for this long: a signature costs more than all the
 * rest of a call. A key that is withdrawn stops working that much later.
 */
const REUSE_MS = 30_000;
const CACHE_LIMIT = 2_000;

/** A claim that is there must be usable: a broken `tenant_id` never falls through to `sub`. */
const name = z.string().min(1).max(256).optional();
const claims = z.object({
  tenant_id: name,
  org_id: name,
  sub: name,
  graph_id: name,
  exp: z.number(),
});

export interface JwtOptions {
  keys: JWTVerifyGetKey;
  issuer: string;
  audience: string;
  /** The clock, in ms, that decides how long a checked token is taken again. */
  now?: () => number;
}

/**
 * Accepts JWTs of one issuer for one audience that expire. The tenant is the first of `tenant_id`,
 * `org_id` and `sub`; `graph_id` binds a token to one agent.
 */
export function createJwtVerifier(options: JwtOptions): TokenVerifier {
  const { now = Date.now } = options;
  const checked = new Map<string, { identity: TokenIdentity; until: number }>();
  return {
    async verify(token) {
      const known = checked.get(token);
      if (known !== undefined && known.until > now()) return known.identity;
      const { identity, expires } = await check(token, options);
      if (checked.size >= CACHE_LIMIT) checked.clear();
      checked.set(token, { identity, until: Math.min(now() + REUSE_MS, expires * 1000) });
      return identity;
    },
  };
}

async function check(token: string, { keys, issuer, audience }: JwtOptions) {
  try {
    const { payload } = await jwtVerify(token, keys, {
      algorithms: ALGORITHMS,
      issuer,
      audience,
      requiredClaims: ["exp"],
      clockTolerance: CLOCK_SKEW_S,
    });
    const { tenant_id, org_id, sub, graph_id: graphId, exp } = claims.parse(payload);
    const tenant = tenant_id ?? org_id ?? sub;
    if (tenant === undefined) throw invalidToken();
    const identity = { tenant, subject: sub ?? tenant, ...(graphId !== undefined && { graphId }) };
    return { identity, expires: exp };
  } catch (error) {
    if (error instanceof HttpError) throw error;
    if (error instanceof errors.JOSEError || error instanceof z.ZodError) throw invalidToken();
    throw error;
  }
}
