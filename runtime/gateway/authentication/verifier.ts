import { createLocalJWKSet, type JWK } from "jose";
import type { Logger } from "../../common/logging.ts";
import type { GatewayConfiguration, JwtConfiguration } from "../configuration.ts";
import { createDevTokenVerifier } from "./dev-token.ts";
import { createJwtVerifier } from "./jwt.ts";
import { createKeySet, loadKeysFromFile, loadKeysFromUrl } from "./key-set.ts";
import { PLATFORM_ISSUER } from "./platform-keys.ts";
import { anyOf, type TokenVerifier } from "./token-verifier.ts";

/**
 * Every kind of token that this gateway is configured to accept. Those that need nobody else to be
 * checked come first: an issuer that is down must not keep them out.
 *
 * @param publicKeys The keys of the platform's own tokens.
 */
export function createVerifier(
  configuration: Pick<GatewayConfiguration, "devToken" | "jwt" | "platformTokens">,
  publicKeys: readonly JWK[],
  logger: Logger,
): TokenVerifier {
  const { devToken, jwt, platformTokens } = configuration;
  const verifiers: TokenVerifier[] = [];
  if (devToken !== undefined) {
    verifiers.push(createDevTokenVerifier(devToken.token, devToken.tenant));
  }
  if (platformTokens !== undefined) {
    const keys = createLocalJWKSet({ keys: [...publicKeys] });
    const { audience } = platformTokens;
    verifiers.push(createJwtVerifier({ keys, issuer: PLATFORM_ISSUER, audience }));
  }
  if (jwt !== undefined) {
    const keys = createKeySet({ load: () => loadKeys(jwt.keys), logger });
    verifiers.push(createJwtVerifier({ keys, issuer: jwt.issuer, audience: jwt.audience }));
  }
  return anyOf(verifiers);
}

function loadKeys(source: JwtConfiguration["keys"]): Promise<unknown> {
  return "url" in source ? loadKeysFromUrl(source.url) : loadKeysFromFile(source.file);
}
