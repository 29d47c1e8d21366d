import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import {
  exportJWK,
  exportSPKI,
  generateKeyPair,
  type JWTPayload,
  SignJWT,
  UnsecuredJWT,
} from "jose";
import { HttpError } from "../../runtime/common/errors.ts";
import { createDevTokenVerifier } from "../../runtime/gateway/authentication/dev-token.ts";
import { createJwtVerifier } from "../../runtime/gateway/authentication/jwt.ts";
import {
  createKeySet,
  loadKeysFromFile,
  loadKeysFromUrl,
} from "../../runtime/gateway/authentication/key-set.ts";
import { anyOf, type TokenVerifier } from "../../runtime/gateway/authentication/token-verifier.ts";
import { recordingLogger, startUpstream } from "../support/gateway.ts";

const ISSUER = "https://issuer.example";
const AUDIENCE = "platform";
const { logger } = recordingLogger();

/** A key of an issuer: its private half and its entry in the key set. */
async function makeKey(alg: string, kid: string) {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { alg, kid, privateKey, publicKey, jwk: { ...(await exportJWK(publicKey)), kid, alg } };
}
type Key = Awaited<ReturnType<typeof makeKey>>;

const nowS = () => Math.floor(Date.now() / 1000);

/** A token that is good in every way, but for what is given. `undefined` leaves a claim out. */
function sign(key: Key, claims: Record<string, unknown> = {}): Promise<string> {
  const all = { iss: ISSUER, aud: AUDIENCE, sub: "user-1", exp: nowS() + 600, ...claims };
  return new SignJWT(all as JWTPayload)
    .setProtectedHeader({ alg: key.alg, kid: key.kid })
    .sign(key.privateKey);
}

function verifierOf(keys: () => Key[]): TokenVerifier {
  const load = async () => ({ keys: keys().map((key) => key.jwk) });
  return createJwtVerifier({
    keys: createKeySet({ load, logger }),
    issuer: ISSUER,
    audience: AUDIENCE,
  });
}

async function statusOf(promise: Promise<unknown>): Promise<number | undefined> {
  try {
    await promise;
    return undefined;
  } catch (error) {
    if (error instanceof HttpError) return error.status;
    throw error;
  }
}

describe("run tokens", () => {
  let key: Key;
  let verifier: TokenVerifier;

  it("of one graph say so, and a graph id that is none spoils a token", async () => {
    const identity = await verifier.verify(await sign(key, { graph_id: "assistant" }));
    expect(identity).to.deep.equal({
      tenant: "user-1",
      subject: "user-1",
      graphId: "assistant",
    });
    expect(await statusOf(verifier.verify(await sign(key, { graph_id: 7 })))).to.equal(401);
  });

  before(async () => {
    key = await makeKey("ES256", "k1");
    verifier = verifierOf(() => [key]);
  });

  for (const alg of ["RS256", "ES256", "EdDSA"]) {
    it(`${alg} is accepted`, async () => {
      const other = await makeKey(alg, "k2");
      const identity = await verifierOf(() => [other]).verify(await sign(other));
      expect(identity).to.deep.equal({ tenant: "user-1", subject: "user-1" });
    });
  }

  it("the tenant is the first of tenant_id, org_id and sub", async () => {
    const tenantOf = async (claims: Record<string, unknown>) =>
      (await verifier.verify(await sign(key, claims))).tenant;
    expect(await tenantOf({ tenant_id: "t", org_id: "o" })).to.equal("t");
    expect(await tenantOf({ org_id: "o" })).to.equal("o");
    expect(await tenantOf({})).to.equal("user-1");
  });

  const refused: Record<string, Record<string, unknown>> = {
    "without exp": { exp: undefined },
    "without iss": { iss: undefined },
    "without aud": { aud: undefined },
    "of another issuer": { iss: "https://other.example" },
    "for another audience": { aud: "other" },
    "that expired past the skew": { exp: nowS() - 40 },
    "that is not valid yet": { nbf: nowS() + 300 },
    "that names nobody": { sub: undefined },
    "whose tenant is empty": { tenant_id: "" },
    "whose tenant is not a text": { tenant_id: { id: 1 } },
  };
  for (const [name, claims] of Object.entries(refused)) {
    it(`a token ${name} is a 401`, async () => {
      expect(await statusOf(verifier.verify(await sign(key, claims)))).to.equal(401);
    });
  }

  it("a token that expired within the skew of 30 s is accepted", async () => {
    const { tenant } = await verifier.verify(await sign(key, { exp: nowS() - 10 }));
    expect(tenant).to.equal("user-1");
  });

  it("a token without a signature (alg none) is a 401", async () => {
    const token = new UnsecuredJWT({ sub: "a" })
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setExpirationTime("1h")
      .encode();
    expect(await statusOf(verifier.verify(token))).to.equal(401);
  });

  it("an HMAC keyed with the public key is a 401", async () => {
    const rsa = await makeKey("RS256", "k3");
    const secret = new TextEncoder().encode(await exportSPKI(rsa.publicKey));
    const token = await new SignJWT({ sub: "a", iss: ISSUER, aud: AUDIENCE, exp: nowS() + 60 })
      .setProtectedHeader({ alg: "HS256", kid: "k3" })
      .sign(secret);
    expect(await statusOf(verifierOf(() => [rsa]).verify(token))).to.equal(401);
  });

  it("a token of another key under a known id is a 401", async () => {
    const forged = await makeKey("ES256", "k1");
    expect(await statusOf(verifier.verify(await sign(forged)))).to.equal(401);
  });

  for (const token of ["", "x", "a.b.c", "..", "e30.e30.e30"]) {
    it(`${JSON.stringify(token)} is a 401`, async () => {
      expect(await statusOf(verifier.verify(token))).to.equal(401);
    });
  }

  it("that was checked is taken again for half a minute, and never past its end", async () => {
    let lookUps = 0;
    let clock = Date.now();
    const counting = createJwtVerifier({
      keys: async () => {
        lookUps += 1;
        return key.publicKey;
      },
      issuer: ISSUER,
      audience: AUDIENCE,
      now: () => clock,
    });
    const long = await sign(key);
    const short = await sign(key, { exp: nowS() + 5, sub: "brief" });
    await counting.verify(long);
    await counting.verify(short);
    expect((await counting.verify(long)).tenant).to.equal("user-1");
    expect((await counting.verify(short)).tenant).to.equal("brief");
    expect(lookUps).to.equal(2);
    clock += 6_000;
    await counting.verify(short);
    await counting.verify(long);
    expect(lookUps).to.equal(3);
    clock += 25_000;
    await counting.verify(long);
    expect(lookUps).to.equal(4);
  });

  it("is tried after the dev token, and either lets a call in", async () => {
    const both = anyOf([createDevTokenVerifier("dev", "local"), verifier]);
    expect((await both.verify("dev")).tenant).to.equal("local");
    expect((await both.verify(await sign(key))).tenant).to.equal("user-1");
    expect(await statusOf(both.verify("neither"))).to.equal(401);
  });
});

describe("the issuer's keys", () => {
  it("a new key is found by its unknown id, but the set loads at most every 10 s", async () => {
    const [first, second] = [await makeKey("EdDSA", "a"), await makeKey("EdDSA", "b")];
    let loads = 0;
    let clock = 1_000_000;
    const published = [first.jwk];
    const keys = createKeySet({
      load: async () => {
        loads += 1;
        return { keys: [...published] };
      },
      logger,
      now: () => clock,
    });
    const verifier = createJwtVerifier({ keys, issuer: ISSUER, audience: AUDIENCE });
    await verifier.verify(await sign(first));
    published.push(second.jwk);
    expect(await statusOf(verifier.verify(await sign(second)))).to.equal(401);
    expect(loads).to.equal(1);
    clock += 10_000;
    expect((await verifier.verify(await sign(second))).tenant).to.equal("user-1");
    expect(loads).to.equal(2);
  });

  it("stay in use while their source is down; with none at all tokens are a 503", async () => {
    const key = await makeKey("EdDSA", "a");
    let up = false;
    let clock = 1_000_000;
    const keys = createKeySet({
      load: async () => {
        if (!up) throw new Error("down");
        return { keys: [key.jwk] };
      },
      logger,
      now: () => clock,
    });
    const verifier = createJwtVerifier({ keys, issuer: ISSUER, audience: AUDIENCE });
    expect(await statusOf(verifier.verify(await sign(key)))).to.equal(503);
    up = true;
    expect((await verifier.verify(await sign(key))).tenant).to.equal("user-1");
    up = false;
    clock += 3_600_000;
    expect((await verifier.verify(await sign(key))).tenant).to.equal("user-1");
  });

  it("a key that was withdrawn stops working once the set has aged", async () => {
    const key = await makeKey("EdDSA", "a");
    const published = [key.jwk];
    let clock = 1_000_000;
    const load = async () => ({ keys: [...published] });
    const now = () => clock;
    const keys = createKeySet({ load, logger, now });
    const verifier = createJwtVerifier({ keys, issuer: ISSUER, audience: AUDIENCE, now });
    await verifier.verify(await sign(key));
    published.pop();
    clock += 601_000;
    expect(await statusOf(verifier.verify(await sign(key)))).to.equal(401);
  });

  it("come from a URL or from a file", async () => {
    const { jwk } = await makeKey("EdDSA", "a");
    const text = JSON.stringify({ keys: [jwk] });
    const issuer = await startUpstream((incoming, outgoing) => {
      outgoing.statusCode = incoming.url === "/jwks" ? 200 : 404;
      outgoing.end(text);
    });
    const directory = await mkdtemp(join(tmpdir(), "gateway-jwks-"));
    const file = join(directory, "jwks.json");
    await writeFile(file, text);
    expect(await loadKeysFromUrl(new URL("/jwks", issuer.url).href)).to.deep.equal({ keys: [jwk] });
    expect(await loadKeysFromFile(file)).to.deep.equal({ keys: [jwk] });
    const missing = await loadKeysFromUrl(new URL("/no", issuer.url).href).catch((e: Error) => e);
    expect(missing).to.be.instanceOf(Error);
    await issuer.stop();
    await rm(directory, { recursive: true });
  });
});
