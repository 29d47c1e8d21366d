import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect } from "chai";
import { extract, pack } from "tar-stream";
import { chainIds, thinArchive } from "../../components/kind-provider/thin-archive.ts";

const digest = (content: Buffer | string) =>
  `sha256:${createHash("sha256").update(content).digest("hex")}`;
const [base, top] = [Buffer.alloc(100_000, "base"), Buffer.from("the agent")];
const diffIds = [digest(base), digest(top)];
const config = JSON.stringify({ rootfs: { type: "layers", diff_ids: diffIds } });
const hex = (name: string) => name.slice("sha256:".length);

type Entry = [name: string, content: Buffer | string] | [name: string, link: { to: string }];

async function archive(entries: Entry[]): Promise<Readable> {
  const tar = pack();
  for (const [name, content] of entries) {
    if (typeof content === "string" || Buffer.isBuffer(content)) tar.entry({ name }, content);
    else tar.entry({ name, type: "symlink", linkname: content.to });
  }
  tar.finalize();
  return Readable.from([await buffer(tar)]);
}

async function files(tar: Buffer): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>();
  const entries = extract();
  Readable.from([tar]).pipe(entries);
  for await (const entry of entries) found.set(entry.header.name, await buffer(entry));
  return found;
}

/** As Docker up to 24 writes it, and as later ones do. */
const FORMATS: Record<string, Entry[]> = {
  "Docker's own": [
    ["aaa/layer.tar", base],
    ["bbb/layer.tar", top],
    ["ccc.json", config],
    [
      "manifest.json",
      JSON.stringify([{ Config: "ccc.json", Layers: ["aaa/layer.tar", "bbb/layer.tar"] }]),
    ],
  ],
  "Docker's own, with a layer that stands there twice": [
    ["aaa/layer.tar", base],
    ["bbb/layer.tar", top],
    ["ddd/layer.tar", { to: "../bbb/layer.tar" }],
    ["ccc.json", config],
    [
      "manifest.json",
      JSON.stringify([{ Config: "ccc.json", Layers: ["aaa/layer.tar", "ddd/layer.tar"] }]),
    ],
  ],
  OCI: [
    [`blobs/sha256/${hex(digest(base))}`, base],
    [`blobs/sha256/${hex(digest(top))}`, top],
    [`blobs/sha256/${hex(digest(config))}`, config],
    [
      "manifest.json",
      JSON.stringify([
        {
          Config: `blobs/sha256/${hex(digest(config))}`,
          Layers: diffIds.map((diffId) => `blobs/sha256/${hex(diffId)}`),
        },
      ]),
    ],
  ],
};

describe("an image of which a node has most", () => {
  const layers = [
    { diffId: digest(base), isPresent: true },
    { diffId: digest(top), isPresent: false },
  ];
  const NAME = "platform.local/agent-poet:1";

  for (const [format, entries] of Object.entries(FORMATS)) {
    it(`goes over without what is there, out of an archive of ${format}`, async () => {
      const thin = await thinArchive(await archive(entries), NAME, layers);
      const found = await files(thin ?? Buffer.alloc(0));
      const blob = (name: string) => found.get(`blobs/sha256/${hex(name)}`) ?? Buffer.alloc(0);

      const index = JSON.parse(String(found.get("index.json")));
      const [{ annotations, digest: manifestDigest }] = index.manifests;
      expect(annotations).to.deep.equal({ "io.containerd.image.name": NAME });
      const manifest = JSON.parse(String(blob(manifestDigest)));
      expect(digest(blob(manifestDigest))).to.equal(manifestDigest);
      expect(manifest.layers).to.deep.equal([
        {
          mediaType: "application/vnd.oci.image.layer.v1.tar",
          digest: digest(base),
          size: base.length,
        },
        {
          mediaType: "application/vnd.oci.image.layer.v1.tar",
          digest: digest(top),
          size: top.length,
        },
      ]);
      expect(blob(manifest.config.digest).toString()).to.equal(config);
      expect(blob(digest(top)).toString()).to.equal("the agent");
      expect([...found.keys()]).not.to.include(`blobs/sha256/${hex(digest(base))}`);
    });
  }

  const compressed: [string, number[]][] = [
    ["gzip", [0x1f, 0x8b]],
    ["zstd", [0x28, 0xb5, 0x2f, 0xfd]],
  ];
  for (const [compression, magic] of compressed) {
    it(`says that a layer is compressed with ${compression}, as Docker's containerd store has them`, async () => {
      const packed = Buffer.concat([Buffer.from(magic), Buffer.from("packed")]);
      const path = `blobs/sha256/${hex(digest(packed))}`;
      const saved: Entry[] = [
        [path, packed],
        ["config", config],
        ["manifest.json", JSON.stringify([{ Config: "config", Layers: ["base", path] }])],
      ];
      const thin = await thinArchive(await archive(saved), NAME, layers);
      const found = await files(thin ?? Buffer.alloc(0));
      const [{ digest: name }] = JSON.parse(String(found.get("index.json"))).manifests;
      const manifest = JSON.parse(String(found.get(`blobs/sha256/${hex(name)}`)));
      expect(manifest.layers[1]).to.deep.equal({
        mediaType: `application/vnd.oci.image.layer.v1.tar+${compression}`,
        digest: digest(packed),
        size: packed.length,
      });
      expect([...found.keys()]).to.include(path);
    });
  }

  it("goes over as a whole where the archive lists more than one, or none", async () => {
    const [first] = JSON.parse(String(FORMATS.OCI?.at(-1)?.[1]));
    const several: Entry[] = [["manifest.json", JSON.stringify([first, first])]];
    expect(await thinArchive(await archive(several), NAME, layers)).to.equal(undefined);
    expect(await thinArchive(await archive([]), NAME, layers)).to.equal(undefined);
  });

  it("fails where the archive breaks off", async () => {
    const whole = await buffer(await archive(FORMATS.OCI ?? []));
    const broken = Readable.from([whole.subarray(0, 50_000)]);
    let error: unknown;
    await thinArchive(broken, NAME, layers).catch((caught) => {
      error = caught;
    });
    expect(error).to.be.instanceOf(Error);
  });

  it("has its layers named by all that is below each", () => {
    const below = digest(base);
    expect(chainIds(diffIds)).to.deep.equal([below, digest(`${below} ${digest(top)}`)]);
  });
});
