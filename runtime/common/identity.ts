import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync } from "node:crypto";
import { type CryptoKey, errors, importPKCS8, importSPKI, jwtVerify, SignJWT } from "jose";
import { z } from "zod";
import { unauthorized } from "./errors.ts";

/** Who makes a call, as the front door established it. */
export interface Identity {
  tenant: string;
  subject: string;
}

/** Carries the signed assertion from the gateway to a worker, and from there to the model gateway. */
export const ASSERTION_HEADER = "x-platform-assertion";
/** Proves to the model gateway that the front door sent a call, though nobody vouches for its caller. */
export const FRONT_DOOR_HEADER = "x-platform-front-door";
/** Every header of this prefix is the platform's own: stripped from what a client sends. */
export const PLATFORM_HEADER_PREFIX = "x-platform-";

const ISSUER = "platform-gateway";
/** Another issuer than that of assertions, so that neither can pass for the other. */
const FRONT_DOOR_ISSUER = "platform-front-door";
const FRONT_DOOR_AUDIENCE = "model-gateway";
const LIFETIME_S = 60;
/**
 * How long after its end an assertion still says whom a run is for, in s. A run keeps the one it was
 * accepted with, and may be told to begin a year later (`after_seconds`); then it has a day.
 */
const ATTRIBUTION_S = 366 * 24 * 3_600;
/** An assertion is reused for this long, so that it always has time left when a worker checks it. */
const REUSE_MS = 30_000;
const CACHE_LIMIT = 10_000;
const ALGORITHM = "EdDSA";
const claims = z.object({ tenant: z.string().min(1), sub: z.string().min(1), aud: z.string() });

/** Signs who the caller is for one graph: an EdDSA JWT, audience = graph id, 60 s, cached. */
export interface AssertionSigner {
  sign(identity: Identity, graphId: string): Promise<string>;
  /** What {@link FRONT_DOOR_HEADER} carries: that the gateway sent the call, and no more. */
  signFrontDoor(): Promise<string>;
}

/** @param privateKeyPem PKCS#8 PEM of an Ed25519 key. */
export async function createAssertionSigner(privateKeyPem: string): Promise<AssertionSigner> {
  const key = await importPKCS8(privateKeyPem, ALGORITHM);
  const cache = new Map<string, { token: string; until: number }>();
  async function cached(cacheKey: string, claims: () => SignJWT): Promise<string> {
    const known = cache.get(cacheKey);
    if (known !== undefined && known.until > Date.now()) return known.token;
    const token = await claims()
      .setProtectedHeader({ alg: ALGORITHM })
      .setIssuedAt()
      .setExpirationTime(`${LIFETIME_S}s`)
      .sign(key);
    if (cache.size >= CACHE_LIMIT) cache.clear();
    cache.set(cacheKey, { token, until: Date.now() + REUSE_MS });
    return token;
  }
  return {
    sign({ tenant, subject }, graphId) {
      return cached(JSON.stringify([tenant, subject, graphId]), () =>
        new SignJWT({ tenant }).setIssuer(ISSUER).setSubject(subject).setAudience(graphId),
      );
    },
    signFrontDoor() {
      return cached("", () =>
        new SignJWT().setIssuer(FRONT_DOOR_ISSUER).setAudience(FRONT_DOOR_AUDIENCE),
      );
    },
  };
}

/** What an assertion says, once its signature has been checked. */
export interface Assertion extends Identity {
  graphId: string;
}

/** Checks assertions; anything but a valid one is a 401. */
export interface AssertionVerifier {
  /** @param graphIds The graphs this worker serves: the audience must be one of them. */
  verify(token: string | undefined, graphIds: readonly string[]): Promise<Assertion>;
  /**
   * Checks who signed it, and only roughly when. For the model gateway, which asks long after the
   * call was admitted for whom it was, and gives no access by it.
   *
   * @throws HttpError 401 for one that is not valid, or older than any run.
   */
  attribute(token: string): Promise<Assertion>;
  /** Whether this is a proof of {@link AssertionSigner.signFrontDoor} that still holds. */
  isFrontDoor(token: string): Promise<boolean>;
}

/** @param publicKeyPem SPKI PEM of the Ed25519 key that the gateway signs with. */
export async function createAssertionVerifier(publicKeyPem: string): Promise<AssertionVerifier> {
  const key = await importSPKI(publicKeyPem, ALGORITHM);
  const cache = new Map<string, { assertion: Assertion; until: number }>();
  // A signature stays right, and a run's calls all carry the same assertion.
  const attributed = new Map<string, { assertion: Assertion; until: number }>();
  let frontDoor = { token: "", until: 0 };
  return {
    async verify(token, graphIds) {
      if (token === undefined || token === "") {
        throw unauthorized("This call did not come through the platform's gateway.");
      }
      const cached = cache.get(token);
      const assertion =
        cached !== undefined && cached.until > Date.now()
          ? cached.assertion
          : await checkAssertion(token, key, cache);
      if (!graphIds.includes(assertion.graphId)) {
        throw unauthorized("The identity assertion is for another graph.");
      }
      return assertion;
    },
    async attribute(token) {
      const known = attributed.get(token);
      if (known !== undefined && known.until > Date.now()) return known.assertion;
      const { assertion, expires } = await readAssertion(token, key, ATTRIBUTION_S);
      if (attributed.size >= CACHE_LIMIT) attributed.clear();
      attributed.set(token, { assertion, until: (expires + ATTRIBUTION_S) * 1000 });
      return assertion;
    },
    async isFrontDoor(token) {
      if (token === frontDoor.token && frontDoor.until > Date.now()) return true;
      const expires = await readFrontDoor(token, key);
      if (expires === undefined) return false;
      frontDoor = { token, until: expires * 1000 };
      return true;
    },
  };
}

async function checkAssertion(
  token: string,
  key: CryptoKey,
  cache: Map<string, { assertion: Assertion; until: number }>,
): Promise<Assertion> {
  const { assertion, expires } = await readAssertion(token, key, 0);
  if (cache.size >= CACHE_LIMIT) cache.clear();
  cache.set(token, { assertion, until: expires * 1000 });
  return assertion;
}

async function readAssertion(token: string, key: CryptoKey, toleranceS: number) {
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [ALGORITHM],
      issuer: ISSUER,
      requiredClaims: ["exp", "iat"],
      clockTolerance: toleranceS,
    });
    const { tenant, sub, aud } = claims.parse(payload);
    return { assertion: { tenant, subject: sub, graphId: aud }, expires: payload.exp ?? 0 };
  } catch (error) {
    if (error instanceof errors.JWTExpired && toleranceS > 0) {
      throw unauthorized("The identity assertion is older than any run may be. Start a new run.");
    }
    if (error instanceof errors.JOSEError || error instanceof z.ZodError) {
      throw unauthorized("The identity assertion is not valid.");
    }
    throw error;
  }
}

/** When the proof ends, in s since 1970; undefined for one that doesn't hold. */
async function readFrontDoor(token: string, key: CryptoKey): Promise<number | undefined> {
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [ALGORITHM],
      issuer: FRONT_DOOR_ISSUER,
      audience: FRONT_DOOR_AUDIENCE,
      requiredClaims: ["exp"],
    });
    return payload.exp;
  } catch (error) {
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}

/** A fresh Ed25519 pair as PEM (PKCS#8 and SPKI). */
export function generateAssertionKeys(): { privateKey: string; publicKey: string } {
  return generateKeyPairSync("ed25519", {
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
}

/** The public half of a PKCS#8 PEM, as SPKI PEM. */
export function publicKeyOf(privateKeyPem: string): string {
  const key = createPublicKey(createPrivateKey(privateKeyPem));
  return key.export({ type: "spki", format: "pem" }).toString();
}

/** How opaque tokens are stored and compared: SHA-256, hexadecimal. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** The token of `Authorization: Bearer …`, or undefined. The scheme's case does not matter. */
export function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.match(/^Bearer +(\S+)$/i)?.[1];
}
