import { randomBytes } from "node:crypto";
import { hashToken } from "../common/identity.ts";

/** What one generation of an agent's credentials is made of, in clear. */
export interface Credentials {
  databasePassword: string;
  redisPassword: string;
  consumerToken: string;
}

/** What may be kept of {@link Credentials}: SHA-256, hexadecimal. */
export interface CredentialHashes {
  databaseHash: string;
  redisHash: string;
  tokenHash: string;
}

const SECRET_BYTES = 32;

/** Fresh credentials of 256 random bits each, safe in a URL. */
export function generateCredentials(): Credentials {
  return {
    databasePassword: secret(),
    redisPassword: secret(),
    consumerToken: `agent-${secret()}`,
  };
}

/** No salt: what is hashed are 256 random bits. Redis and the model gateway store the same hashes. */
export function hashesOf(credentials: Credentials): CredentialHashes {
  return {
    databaseHash: hashToken(credentials.databasePassword),
    redisHash: hashToken(credentials.redisPassword),
    tokenHash: hashToken(credentials.consumerToken),
  };
}

/** True where these credentials are the ones that were hashed. */
export function matches(credentials: Credentials, hashes: CredentialHashes): boolean {
  const own = hashesOf(credentials);
  return (
    own.databaseHash === hashes.databaseHash &&
    own.redisHash === hashes.redisHash &&
    own.tokenHash === hashes.tokenHash
  );
}

function secret(): string {
  return randomBytes(SECRET_BYTES).toString("base64url");
}
