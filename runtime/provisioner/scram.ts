import { createHash, createHmac, pbkdf2, randomBytes } from "node:crypto";
import { promisify } from "node:util";

const ITERATIONS = 4096;
const SALT_BYTES = 16;
const KEY_BYTES = 32;

/**
 * What PostgreSQL stores for a password (RFC 5803, SCRAM-SHA-256), so that the password itself is
 * never in a statement, where a server's log would keep it.
 *
 * @param password ASCII: nothing is normalised.
 */
export async function scramVerifier(
  password: string,
  salt = randomBytes(SALT_BYTES),
): Promise<string> {
  const salted = await promisify(pbkdf2)(password, salt, ITERATIONS, KEY_BYTES, "sha256");
  const clientKey = createHmac("sha256", salted).update("Client Key").digest();
  const storedKey = createHash("sha256").update(clientKey).digest("base64");
  const serverKey = createHmac("sha256", salted).update("Server Key").digest("base64");
  return `SCRAM-SHA-256$${ITERATIONS}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}
