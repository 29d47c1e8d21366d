import { randomBytes } from "node:crypto";
import { open, readFile, rename } from "node:fs/promises";
import { z } from "zod";
import { UserError } from "../common/errors.ts";
import { generateAssertionKeys } from "../common/identity.ts";

const password = z.string().min(16);
const pem = z.string().startsWith("-----BEGIN ");

const secretsFile = z.strictObject({
  version: z.literal(1),
  databasePasswords: z.strictObject({
    postgres: password,
    gateway: password,
    model_gateway: password,
    worker: password,
  }),
  /** Ed25519, PEM: the gateway signs who a caller is, the worker checks it. */
  assertionKeys: z.strictObject({ privateKey: pem, publicKey: pem }),
  consolePassword: password,
  consoleSessionSecret: z.string().min(32),
  /** The worker's own token for the model gateway. */
  workerToken: z.string().min(32),
});

/** What the programs of one data directory share and nobody else may know. */
export type Secrets = z.output<typeof secretsFile>;

/**
 * Reads the secrets, or makes them where there are none yet.
 *
 * @throws UserError where the file is damaged. It is never made anew then: the database would not
 *   open to new passwords.
 */
export async function loadSecrets(file: string): Promise<Secrets> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return await makeSecrets(file);
  }
  const result = secretsFile.safeParse(parseJson(text));
  if (result.success) return result.data;
  const places = result.error.issues.map((issue) => issue.path.join(".")).filter(Boolean);
  throw new UserError(
    "secrets_damaged",
    `${file} is damaged${places.length === 0 ? "" : `: ${places.join(", ")}`}.`,
    "Restore it from a backup. Without one, the data beside it can't be opened any more: move the whole directory away, or start with --data DIR.",
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON at all: the schema says so, with the hint that fits.
    return undefined;
  }
}

async function makeSecrets(file: string): Promise<Secrets> {
  const secrets: Secrets = {
    version: 1,
    databasePasswords: {
      postgres: token(),
      gateway: token(),
      model_gateway: token(),
      worker: token(),
    },
    assertionKeys: generateAssertionKeys(),
    consolePassword: randomBytes(12).toString("base64url"),
    consoleSessionSecret: token(),
    workerToken: token(),
  };
  await writeWhole(file, `${JSON.stringify(secrets, null, 2)}\n`);
  return secrets;
}

const token = () => randomBytes(32).toString("base64url");

/** All or nothing, and on disk: a power cut leaves the file whole or absent. */
async function writeWhole(file: string, text: string): Promise<void> {
  const unfinished = `${file}.new`;
  const handle = await open(unfinished, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(unfinished, file);
}
