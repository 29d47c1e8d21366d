import { createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import * as pulumi from "@pulumi/pulumi";
import { expect } from "chai";
import { assertionKeys, ed25519Pem } from "../../components/assertion-keys.ts";
import { isSecret, plain, record } from "../support/pulumi-monitor.ts";

describe("the key by which the gateway vouches for callers", () => {
  const seed = Buffer.alloc(32, 7).toString("base64");

  it("is an Ed25519 key whose signatures its public half verifies", () => {
    const privateKey = createPrivateKey(ed25519Pem(seed));
    const message = Buffer.from("who calls");
    expect(privateKey.asymmetricKeyType).to.equal("ed25519");
    const signature = sign(null, message, privateKey);
    expect(verify(null, message, createPublicKey(privateKey), signature)).to.equal(true);
  });

  it("is the same for the same seed, and another for another", () => {
    expect(ed25519Pem(seed)).to.equal(ed25519Pem(seed));
    expect(ed25519Pem(Buffer.alloc(32, 8).toString("base64"))).not.to.equal(ed25519Pem(seed));
  });

  it("goes out in private as a secret and in public as PEM that anyone may see", async () => {
    const { resources } = await record({}, () => {
      const holder = new pulumi.ComponentResource("test:index:Holder", "holder");
      const keys = assertionKeys("key", holder);
      new Observed("observed", { ...keys });
    });
    const observed = resources.find(({ name }) => name === "observed");
    expect(isSecret(observed?.inputs.privateKey)).to.equal(true);
    expect(plain(observed?.inputs.privateKey)).to.match(/^-----BEGIN PRIVATE KEY-----/);
    expect(observed?.inputs.publicKey).to.match(/^-----BEGIN PUBLIC KEY-----/);
  });
});

class Observed extends pulumi.CustomResource {
  constructor(name: string, inputs: pulumi.Inputs) {
    super("test:index:Observed", name, inputs);
  }
}
