import { createHash } from "node:crypto";
import { posix } from "node:path";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { extract, type Header, pack } from "tar-stream";
import { z } from "zod";

/** More than this is not held in memory: who misses so much gets the whole archive. */
const MOST_HELD_BYTES = 32 * 1024 ** 2;

const manifests = z.tuple([z.object({ Config: z.string(), Layers: z.array(z.string()) })]);

/** A layer of an image, and whether the node has unpacked it already. */
export interface Layer {
  /** The digest of its uncompressed content. */
  diffId: string;
  isPresent: boolean;
}

/**
 * The names under which containerd keeps unpacked layers (OCI image specification, "Layer ChainID"):
 * each names a layer and all below it.
 *
 * @param diffIds Digests of the uncompressed layers, the lowest first.
 */
export function chainIds(diffIds: string[]): string[] {
  const chains: string[] = [];
  for (const diffId of diffIds) {
    const below = chains.at(-1);
    chains.push(below === undefined ? diffId : digestOf(Buffer.from(`${below} ${diffId}`)));
  }
  return chains;
}

/**
 * An image as an OCI archive with only those of its layers that a node has not unpacked yet: an agent's
 * image is 70 KB upon 300 MB that the node has. containerd asks for nothing of an unpacked layer but its
 * name, and kind has it drop the archives of layers anyway (`discard_unpacked_layers`).
 *
 * @param saved What `docker save` writes of this one image, of any of its formats.
 * @param name The image's full name, e.g. `docker.io/library/postgres:17`.
 * @param layers Its layers, the lowest first.
 * @returns undefined where the missing layers are too much for this way, or the archive has no list of
 *   them, or several.
 */
export async function thinArchive(
  saved: Readable,
  name: string,
  layers: Layer[],
): Promise<Buffer | undefined> {
  const { held, sizes } = await read(saved);
  const listed = held.get("manifest.json");
  // One for each processor, where Docker has an image for several.
  const [manifest] = manifests.safeParse(listed && JSON.parse(listed.toString())).data ?? [];
  const config = manifest && held.get(manifest.Config);
  if (manifest === undefined || config === undefined) return undefined;
  const blobs = [config];
  const descriptors: Descriptor[] = [];
  for (const [position, { diffId, isPresent }] of layers.entries()) {
    const path = manifest.Layers[position] ?? "";
    const content = held.get(path);
    if (isPresent) {
      descriptors.push({ mediaType: LAYER, digest: diffId, size: sizes.get(path) ?? 0 });
    } else if (content === undefined) {
      return undefined;
    } else {
      descriptors.push(descriptor(layerType(content), content));
      blobs.push(content);
    }
  }
  return await write(name, { config: descriptor(CONFIG, config), layers: descriptors }, blobs);
}

interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
}

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const CONFIG = "application/vnd.oci.image.config.v1+json";
const LAYER = "application/vnd.oci.image.layer.v1.tar";
/** Magic numbers of compressed files (RFC 1952, RFC 8878), and the suffix of a layer's media type. */
const COMPRESSIONS: [Buffer, string][] = [
  [Buffer.from([0x1f, 0x8b]), "+gzip"],
  [Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), "+zstd"],
];

function descriptor(mediaType: string, content: Buffer): Descriptor {
  return { mediaType, digest: digestOf(content), size: content.length };
}

/** The small files of an archive, and the sizes of all. */
async function read(saved: Readable) {
  const held = new Map<string, Buffer>();
  const sizes = new Map<string, number>();
  const entries = extract();
  saved.on("error", (error) => entries.destroy(error)).pipe(entries);
  for await (const entry of entries) {
    const { name, size = 0, type } = entry.header as Header;
    const target = linkTarget(entry.header as Header);
    if (target !== undefined) {
      const content = held.get(target);
      if (content !== undefined) held.set(name, content);
      sizes.set(name, sizes.get(target) ?? 0);
    }
    if (type === "file") sizes.set(name, size);
    if (type === "file" && size <= MOST_HELD_BYTES) held.set(name, await buffer(entry));
    else entry.resume();
  }
  return { held, sizes };
}

/** Docker writes a layer that stands there already as a link to it. */
function linkTarget({ name, linkname, type }: Header): string | undefined {
  if (type !== "symlink" || !linkname) return undefined;
  return posix.join(posix.dirname(name), linkname);
}

async function write(
  name: string,
  parts: { config: Descriptor; layers: Descriptor[] },
  blobs: Buffer[],
): Promise<Buffer> {
  const manifest = json({ schemaVersion: 2, mediaType: MANIFEST, ...parts });
  const annotations = { "io.containerd.image.name": name };
  const index = {
    schemaVersion: 2,
    manifests: [{ ...descriptor(MANIFEST, manifest), annotations }],
  };
  const archive = pack();
  archive.entry({ name: "oci-layout" }, json({ imageLayoutVersion: "1.0.0" }));
  archive.entry({ name: "index.json" }, json(index));
  for (const blob of [manifest, ...blobs]) {
    archive.entry({ name: `blobs/sha256/${digestOf(blob).slice("sha256:".length)}` }, blob);
  }
  archive.finalize();
  return await buffer(archive);
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function layerType(content: Buffer): string {
  const found = COMPRESSIONS.find(([magic]) => content.subarray(0, magic.length).equals(magic));
  return `${LAYER}${found?.[1] ?? ""}`;
}

function digestOf(content: Buffer): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}
