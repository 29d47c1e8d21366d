import type { MiddlewareHandler } from "hono";
import { forbidden, unauthorized } from "../../common/errors.ts";
import { bearerToken } from "../../common/identity.ts";
import { TENANT } from "../../common/telemetry.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import type { TokenVerifier } from "./token-verifier.ts";

/**
 * Lets a call pass once its token says for which tenant it is, left as `c.get("identity")`.
 *
 * The token comes as `Authorization: Bearer …`; LangGraph SDKs may send it as `X-Api-Key`, which
 * counts only where there is no `Authorization`.
 */
export function authenticate(verifier: TokenVerifier): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const authorization = c.req.header("authorization");
    const token =
      authorization === undefined ? c.req.header("x-api-key") : bearerToken(authorization);
    if (token === undefined || token === "") {
      throw unauthorized("This call needs a token. Send it as `Authorization: Bearer <token>`.");
    }
    const identity = await verifier.verify(token);
    const claimed = c.req.header("x-tenant-id");
    if (claimed !== undefined && claimed !== identity.tenant) {
      throw forbidden(
        "The header X-Tenant-ID names another tenant than the token. Leave it out: the token says it.",
      );
    }
    c.set("identity", identity);
    c.set("tenant", identity.tenant);
    c.get("span")?.setAttribute(TENANT, identity.tenant);
    await next();
  };
}
