import { createPublicKey, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint, exportJWK, type JWK } from "jose";
import { UserError } from "../../common/errors.ts";

/** Who the platform's own tokens say they are from. */
export const PLATFORM_ISSUER = "platform";

const PEM = /-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g;
const HINT =
  "Put one or more public keys there, each as a PEM block that begins with BEGIN PUBLIC KEY.";

/**
 * The keys that tokens of the platform's own are signed with, as public JWKs. Several, so that a
 * new one can be published before the first token is signed with it. The key id is the RFC 7638
 * thumbprint: who mints a token needs to know nothing but the key.
 *
 * @param text SPKI PEM blocks, one after the other.
 * @throws UserError where one is no key that tokens may be signed with.
 */
export async function readPlatformKeys(text: string): Promise<JWK[]> {
  const blocks = text.match(PEM) ?? [];
  if (blocks.length === 0 || text.replace(PEM, "").trim() !== "") {
    throw new UserError(
      "configuration",
      "TOKEN_SIGNING_PUBLIC_KEYS is not a list of keys.",
      HINT,
      2,
    );
  }
  return Promise.all(blocks.map(publicJwk));
}

async function publicJwk(pem: string): Promise<JWK> {
  const key = publicKeyOf(pem);
  const jwk = await exportJWK(key);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: algorithmOf(key), use: "sig" };
}

function publicKeyOf(pem: string): KeyObject {
  try {
    return createPublicKey(pem);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UserError(
      "configuration",
      `TOKEN_SIGNING_PUBLIC_KEYS holds a block that is no public key: ${reason}.`,
      HINT,
      2,
    );
  }
}

function algorithmOf(key: KeyObject): string {
  const { asymmetricKeyType, asymmetricKeyDetails } = key;
  if (asymmetricKeyType === "ed25519") return "EdDSA";
  if (asymmetricKeyType === "rsa") return "RS256";
  if (asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1") {
    return "ES256";
  }
  throw new UserError(
    "configuration",
    `TOKEN_SIGNING_PUBLIC_KEYS holds a key of the kind ${asymmetricKeyType}.`,
    "Use Ed25519, P-256 or RSA keys.",
    2,
  );
}
