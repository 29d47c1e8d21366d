import { generateKeyPairSync } from "node:crypto";
import { expect } from "chai";
import { readPlatformKeys } from "../../runtime/gateway/authentication/platform-keys.ts";
import { failureOf } from "../support/failure.ts";

const spki = { type: "spki", format: "pem" } as const;
const ed25519 = () => generateKeyPairSync("ed25519").publicKey.export(spki).toString();
const ec = (namedCurve: string) =>
  generateKeyPairSync("ec", { namedCurve }).publicKey.export(spki).toString();

describe("the platform's public keys", () => {
  it("may be of every kind that tokens are signed with, one after the other", async () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export(spki);
    const keys = await readPlatformKeys(`${ed25519()}\n${ec("prime256v1")}${rsa}`);
    expect(keys.map(({ alg }) => alg)).to.deep.equal(["EdDSA", "ES256", "RS256"]);
    expect(new Set(keys.map(({ kid }) => kid)).size).to.equal(3);
  });

  const wrong: [string, string][] = [
    ["nothing", ""],
    ["no key", "hello"],
    ["a key and more", `${ed25519()}hello`],
    ["a broken key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"],
    ["a key of another curve", ec("secp384r1")],
    [
      "a private key",
      generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    ],
  ];
  for (const [name, text] of wrong) {
    it(`${name} is a mistake that is named, not shown`, async () => {
      const error = await failureOf(readPlatformKeys(text));
      expect(error.name).to.equal("UserError");
      expect(error.message).to.contain("TOKEN_SIGNING_PUBLIC_KEYS");
      expect(error.message).not.to.contain("-----");
    });
  }
});
