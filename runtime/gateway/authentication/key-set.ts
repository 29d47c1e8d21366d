import { readFile } from "node:fs/promises";
import { createLocalJWKSet, errors, type JWTVerifyGetKey } from "jose";
import { request } from "undici";
import { z } from "zod";
import { unavailable } from "../../common/errors.ts";
import type { Logger } from "../../common/logging.ts";

/** A JSON Web Key Set (RFC 7517). Keys of unknown kinds are left to the library to pass over. */
const keySetDocument = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });
type KeySetDocument = z.infer<typeof keySetDocument>;

/** An unknown key id makes the set load anew, but not more often: tokens are free to invent ids. */
const RELOAD_PAUSE_MS = 10_000;
/** After this long a set is loaded anew anyway, so that a withdrawn key stops working. */
const MAX_AGE_MS = 600_000;
const FETCH_TIMEOUT_MS = 5_000;

export interface KeySetOptions {
  /** Reads the set from where it lives. */
  load: () => Promise<unknown>;
  logger: Logger;
  /** The clock, in ms. */
  now?: () => number;
}

/**
 * The issuer's public keys. A set that could be loaded once stays in use while its source is down;
 * with none at all a token can't be judged, which is a 503.
 */
export function createKeySet({ load, logger, now = Date.now }: KeySetOptions): JWTVerifyGetKey {
  let find: ReturnType<typeof createLocalJWKSet> | undefined;
  let loadedAt = 0;
  let triedAt = Number.NEGATIVE_INFINITY;
  let loading: Promise<void> | undefined;

  const reload = () => {
    loading ??= loadOnce().finally(() => {
      loading = undefined;
    });
    return loading;
  };
  const loadOnce = async () => {
    triedAt = now();
    try {
      const document: KeySetDocument = keySetDocument.parse(await load());
      find = createLocalJWKSet(document);
      loadedAt = now();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      logger.error({ error: reason }, "the keys that tokens are checked with can't be loaded");
    }
  };
  const mayReload = () => now() - triedAt >= RELOAD_PAUSE_MS;

  return async (header, token) => {
    if (find === undefined) await reload();
    else if (now() - loadedAt > MAX_AGE_MS && mayReload()) await reload();
    if (find === undefined) throw unavailable("Tokens can't be checked at the moment.", 5);
    try {
      return await find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !mayReload()) throw error;
      await reload();
      return find(header, token);
    }
  };
}

/** Reads a key set from a URL. */
export async function loadKeysFromUrl(url: string): Promise<unknown> {
  const { statusCode, body } = await request(url, {
    headersTimeout: FETCH_TIMEOUT_MS,
    bodyTimeout: FETCH_TIMEOUT_MS,
  });
  if (statusCode !== 200) {
    await body.dump();
    throw new Error(`the key set's address answers with status ${statusCode}`);
  }
  return body.json();
}

/** Reads a key set from a file, e.g. one that a cluster mounts and replaces. */
export async function loadKeysFromFile(path: string): Promise<unknown> {
  return JSON.parse(await readFile(path, "utf8"));
}
