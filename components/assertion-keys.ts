import { createPrivateKey, createPublicKey } from "node:crypto";
import * as pulumi from "@pulumi/pulumi";
import * as random from "@pulumi/random";

/** DER of a PKCS#8 Ed25519 key up to its 32 bytes (RFC 8410). */
const PKCS8_ED25519 = Buffer.from("302e020100300506032b657004220420", "hex");

/** The pair by which the gateway vouches for callers: PEM, PKCS#8 and SPKI. */
export interface AssertionKeys {
  privateKey: pulumi.Output<string>;
  publicKey: pulumi.Output<string>;
}

/** Makes the pair once and keeps it in the stack's state, encrypted. */
export function assertionKeys(name: string, parent: pulumi.Resource): AssertionKeys {
  const seed = new random.RandomBytes(name, { length: 32 }, { parent });
  const privateKey = pulumi.secret(seed.base64.apply(ed25519Pem));
  return { privateKey, publicKey: pulumi.unsecret(privateKey.apply(publicPem)) };
}

/** @param seed 32 random bytes, base64. */
export function ed25519Pem(seed: string): string {
  const der = Buffer.concat([PKCS8_ED25519, Buffer.from(seed, "base64")]);
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}

function publicPem(privateKey: string): string {
  return createPublicKey(createPrivateKey(privateKey))
    .export({ type: "spki", format: "pem" })
    .toString();
}
