import { generateKeyPairSync } from "node:crypto";
import { expect } from "chai";
import { calculateJwkThumbprint, importPKCS8, type JWK, SignJWT } from "jose";
import { request } from "undici";
import { readPlatformKeys } from "../../runtime/gateway/authentication/platform-keys.ts";
import { createVerifier } from "../../runtime/gateway/authentication/verifier.ts";
import {
  CALL_HEADERS,
  GRAPH_ID,
  gatewayDeps,
  type Listening,
  recordingLogger,
  startGateway,
  startUpstream,
} from "../support/gateway.ts";

const AUDIENCE = "platform";
const pem = { type: "pkcs8", format: "pem" } as const;
const pair = () =>
  generateKeyPairSync("ed25519", {
    privateKeyEncoding: pem,
    publicKeyEncoding: { type: "spki", format: "pem" },
  });

/** What an upstream saw of a call. */
interface Seen {
  url: string;
  headers: Record<string, string>;
}

describe("the gateway in a cluster, without a console of its own", () => {
  const [current, next] = [pair(), pair()];
  let publicKeys: JWK[];
  let upstream: Listening;
  let gateway: Listening;
  const { logger } = recordingLogger();

  before(async () => {
    upstream = await startUpstream((incoming, outgoing) => {
      outgoing.setHeader("set-cookie", ["session=1; HttpOnly", "csrf=2"]);
      outgoing.setHeader("x-platform-secret", "1");
      if (incoming.url === "/moved") outgoing.writeHead(302, { location: "/login" });
      outgoing.end(JSON.stringify({ url: incoming.url, headers: incoming.headers }));
    });
    publicKeys = await readPlatformKeys(current.publicKey + next.publicKey);
    const platformTokens = { publicKeys: "", audience: AUDIENCE };
    const deps = await gatewayDeps({
      worker: upstream.url,
      traceUi: upstream.url,
      toolGateway: upstream.url,
      publicKeys,
      verifier: createVerifier(
        { devToken: undefined, jwt: undefined, platformTokens },
        publicKeys,
        logger,
      ),
    });
    gateway = await startGateway({ ...deps, console: { ...deps.console, own: undefined } });
  });
  after(async () => {
    await gateway.stop();
    await upstream.stop();
  });

  async function call(host: string, path: string, headers: Record<string, string> = {}) {
    const answer = await request(new URL(path, gateway.url), { headers: { host, ...headers } });
    return {
      status: answer.statusCode,
      headers: answer.headers,
      text: await answer.body.text(),
    };
  }
  const seen = (text: string): Seen => JSON.parse(text);

  describe("the tracing UI", () => {
    it("gets its cookies and its host, and what is only ours stays here", async () => {
      const { text } = await call("traces.localhost:8088", "/v1/x?q=1", {
        cookie: "session=1",
        authorization: "Bearer theirs",
        "x-platform-assertion": "forged",
        "x-forwarded-host": "evil.example",
        forwarded: "host=evil.example",
      });
      const { url, headers } = seen(text);
      expect(url).to.equal("/v1/x?q=1");
      expect(headers).to.include({
        host: "traces.localhost:8088",
        cookie: "session=1",
        authorization: "Bearer theirs",
        "x-forwarded-proto": "http",
      });
      expect(headers).not.to.have.any.keys("x-platform-assertion", "x-forwarded-host", "forwarded");
    });

    it("may set cookies and lead elsewhere", async () => {
      const { status, headers } = await call("traces.localhost", "/moved");
      expect(status).to.equal(302);
      expect(headers.location).to.equal("/login");
      expect(headers["set-cookie"]).to.deep.equal(["session=1; HttpOnly", "csrf=2"]);
      expect(headers).not.to.have.property("x-platform-secret");
    });

    it("is where /traces of the machine itself leads", async () => {
      for (const host of ["localhost:8088", "console.localhost:8088"]) {
        const { status, headers } = await call(host, "/traces");
        expect(status, host).to.equal(303);
        expect(headers.location, host).to.equal("http://traces.localhost:8088/");
      }
    });
  });

  it("the console says welcome and asks nobody to sign in", async () => {
    for (const host of ["localhost", "console.localhost"]) {
      const { status, text } = await call(host, "/");
      expect(status).to.equal(200);
      expect(text).to.contain("The platform is running").and.contain('href="/traces"');
      expect(text).not.to.contain("sign-in");
      expect(text).not.to.contain(">assistant<");
    }
    expect((await call("console.localhost", "/sign-in")).status).to.equal(404);
  });

  it("the tool gateway gets the token, and no cookie", async () => {
    const { text, headers } = await call("mcp.localhost", "/mcp", {
      authorization: "Bearer agent",
      cookie: "a=b",
      "mcp-session-id": "s",
    });
    expect(seen(text).headers).to.include({ authorization: "Bearer agent", "mcp-session-id": "s" });
    expect(seen(text).headers).not.to.have.property("cookie");
    expect(headers).not.to.have.property("set-cookie");
  });

  describe("tokens of the platform's own", () => {
    const sign = async (key: string, claims: Record<string, unknown> = {}, kid?: string) =>
      new SignJWT({ tenant_id: "acme", iss: "platform", aud: AUDIENCE, ...claims })
        .setProtectedHeader({ alg: "EdDSA", ...(kid !== undefined && { kid }) })
        .setIssuedAt()
        .setExpirationTime("5m")
        .sign(await importPKCS8(key, "EdDSA"));
    const ask = async (token: string) => {
      const headers = { ...CALL_HEADERS, authorization: `Bearer ${token}` };
      return (await call("agents.localhost", "/info", headers)).status;
    };

    it("their keys are published by their thumbprints, for all to read", async () => {
      for (const host of ["agents.localhost", "localhost"]) {
        const { status, text, headers } = await call(host, "/.well-known/jwks.json");
        expect(status).to.equal(200);
        expect(headers["content-type"]).to.equal("application/jwk-set+json");
        const { keys } = JSON.parse(text) as { keys: JWK[] };
        expect(keys).to.have.length(2);
        for (const key of keys) {
          expect(key).to.include({ kty: "OKP", alg: "EdDSA", use: "sig" });
          expect(key.kid).to.equal(await calculateJwkThumbprint(key));
          expect(key).not.to.have.property("d");
        }
      }
    });

    it("let a call in, whichever of the keys signed them", async () => {
      const [first, second] = publicKeys;
      expect(await ask(await sign(current.privateKey, {}, first?.kid))).to.equal(200);
      expect(await ask(await sign(next.privateKey, {}, second?.kid))).to.equal(200);
    });

    it("of another key, issuer or audience are a 401", async () => {
      const kid = publicKeys[0]?.kid;
      expect(await ask(await sign(pair().privateKey, {}, kid))).to.equal(401);
      expect(await ask(await sign(current.privateKey, { iss: "other" }, kid))).to.equal(401);
      expect(await ask(await sign(current.privateKey, { aud: "other" }, kid))).to.equal(401);
    });
  });

  it("a gateway without keys of its own publishes none", async () => {
    const plain = await startGateway(await gatewayDeps());
    const answer = await request(new URL("/.well-known/jwks.json", plain.url), {
      headers: { host: "agents.localhost", "x-graph-id": GRAPH_ID },
    });
    expect(answer.statusCode).to.equal(401);
    await plain.stop();
  });
});
