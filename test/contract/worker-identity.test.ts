import { createHmac, generateKeyPairSync } from "node:crypto";
import { expect } from "chai";
import { importPKCS8, SignJWT, UnsecuredJWT } from "jose";
import { ASSERTION_HEADER, createAssertionSigner } from "../../runtime/common/identity.ts";
import { sharedWorker } from "../support/shared-worker.ts";
import { ASSERTION_PRIVATE_KEY, jsonOf, type TestWorker } from "../support/worker.ts";

describe("who may call a worker", () => {
  let worker: TestWorker;

  before(async () => {
    worker = (await sharedWorker()).worker;
  });

  it("a call that did not come through the gateway is a 401 with the usual body", async () => {
    for (const path of ["/info", "/openapi.json", "/threads/search", "/runs/wait", "/nothing"]) {
      const answer = await worker.call(undefined, "POST", path, {});
      expect(answer.status, path).to.equal(401);
      expect(await answer.json()).to.deep.equal({
        error: "unauthorized",
        message: "This call did not come through the platform's gateway.",
        details: null,
      });
    }
  });

  it("only a valid assertion for a graph of this worker counts", async () => {
    const key = await importPKCS8(ASSERTION_PRIVATE_KEY, "EdDSA");
    const claims = { tenant: "acme" };
    const token = () =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: "EdDSA" })
        .setIssuer("platform-gateway")
        .setSubject("u")
        .setAudience("counter")
        .setIssuedAt()
        .setExpirationTime("60s");
    const foreign = await createAssertionSigner(
      generateKeyPairSync("ed25519", {
        privateKeyEncoding: { type: "pkcs8", format: "pem" },
        publicKeyEncoding: { type: "spki", format: "pem" },
      }).privateKey,
    );
    const good = await token().sign(key);
    const [header, payload] = good.split(".");
    const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
    const hmac = `${encoded({ alg: "HS256" })}.${payload}`;
    const wrong: Record<string, string> = {
      "of another gateway": await foreign.sign({ tenant: "acme", subject: "u" }, "counter"),
      "for a graph that is not served": await token().setAudience("unknown").sign(key),
      "for two graphs": await token().setAudience(["counter", "board"]).sign(key),
      "that has expired": await token().setExpirationTime("-1s").sign(key),
      "from another issuer": await token().setIssuer("somebody").sign(key),
      "that is not signed": new UnsecuredJWT(claims)
        .setIssuer("platform-gateway")
        .setSubject("u")
        .setAudience("counter")
        .setIssuedAt()
        .setExpirationTime("60s")
        .encode(),
      "with a shared secret": `${hmac}.${createHmac("sha256", ASSERTION_PRIVATE_KEY).update(hmac).digest("base64url")}`,
      "whose claims were changed": `${header}.${encoded({ ...claims, aud: "counter", tenant: "b" })}.${good.split(".")[2]}`,
      "without a tenant": await new SignJWT({})
        .setProtectedHeader({ alg: "EdDSA" })
        .setIssuer("platform-gateway")
        .setSubject("u")
        .setAudience("counter")
        .setIssuedAt()
        .setExpirationTime("60s")
        .sign(key),
      "that is no token": "Bearer x.y.z",
    };
    const info = (assertion: string) =>
      worker.call(undefined, "GET", "/info", undefined, {
        headers: { [ASSERTION_HEADER]: assertion },
      });
    expect((await info(good)).status).to.equal(200);
    for (const [what, assertion] of Object.entries(wrong)) {
      const answer = await info(assertion);
      expect(answer.status, `an assertion ${what}`).to.equal(401);
      expect(await jsonOf(answer)).to.include({ error: "unauthorized", details: null });
    }
  });
});
