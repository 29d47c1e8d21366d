import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { copyFile, mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { UserError } from "../../runtime/common/errors.ts";
import { run } from "./commands.ts";
import { isThere } from "./is-there.ts";

/**
 * A file by URL or path, checked and kept in a cache by its checksum.
 *
 * @param checksum SHA-256 or SHA-512, hexadecimal.
 * @returns The path of a copy whose checksum is right.
 * @throws UserError if it can't be had or is another file than it should be.
 */
export async function fetchArtifact(
  location: string,
  checksum: string,
  cacheDirectory: string,
): Promise<string> {
  await mkdir(cacheDirectory, { recursive: true });
  const name = new URL(location, "file:///").pathname.split("/").at(-1) ?? "artifact";
  const cached = join(cacheDirectory, `${checksum.slice(0, 16)}-${name}`);
  if (await isThere(cached)) return cached;
  const partial = `${cached}.${process.pid}`;
  try {
    await obtain(location, partial);
    const actual = await hashOf(partial, checksum.length === 64 ? "sha256" : "sha512");
    if (actual !== checksum) throw wrongChecksum(location, checksum, actual);
    await rename(partial, cached);
    return cached;
  } finally {
    await rm(partial, { force: true });
  }
}

/** Unpacks a tar archive of any compression that tar knows. Names of its entries to their paths. */
export async function unpack(archive: string, directory: string): Promise<Map<string, string>> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  await run("tar", ["-xf", archive, "-C", directory]);
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return new Map(entries.map((entry) => [entry.name, join(entry.parentPath, entry.name)]));
}

async function obtain(location: string, to: string): Promise<void> {
  try {
    if (!/^https?:/.test(location)) return await copyFile(location, to);
    const response = await fetch(location);
    if (!response.ok || response.body === null) throw new Error(`HTTP ${response.status}`);
    await pipeline(Readable.fromWeb(response.body), createWriteStream(to));
  } catch (error) {
    throw new UserError(
      "artifact",
      `${location} can't be had: ${(error as Error).message}.`,
      "Check the network, or name another place (a local file, too) in platform:artifacts.",
    );
  }
}

async function hashOf(path: string, algorithm: string): Promise<string> {
  const hash = createHash(algorithm);
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

function wrongChecksum(location: string, wanted: string, actual: string): UserError {
  return new UserError(
    "artifact_checksum",
    `${location} is not the file it should be: its checksum is ${actual}, not ${wanted}.`,
    "Do not use it. If you changed its place in platform:artifacts, give its own checksum as well.",
  );
}
