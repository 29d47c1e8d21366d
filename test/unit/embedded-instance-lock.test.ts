import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import {
  type Instance,
  releaseLock,
  takeLock,
  thisInstance,
} from "../../runtime/embedded/instance-lock.ts";

describe("the lock of a data directory", () => {
  let directory: string;
  let file: string;
  let paths: { directory: string; instance: string };
  let mine: Instance;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "platform-lock-"));
    file = join(directory, "lock.7");
    paths = { directory, instance: join(directory, "embedded.json") };
    mine = await thisInstance(8088);
  });

  afterEach(() => rm(directory, { recursive: true, force: true }));

  it("is taken once; the next one learns who has it and on which port", async () => {
    expect(await takeLock(paths, mine)).to.equal(undefined);

    expect(await takeLock(paths, { ...mine, port: 9999 })).to.deep.equal(mine);
  });

  it("of a process that is gone is replaced", async () => {
    await writeFile(file, JSON.stringify({ ...mine, pid: 4_194_303 }));

    expect(await takeLock(paths, mine)).to.equal(undefined);
    expect(JSON.parse(await readFile(paths.instance, "utf8")).pid).to.equal(process.pid);
    expect((await readdir(directory)).sort()).to.deep.equal(["embedded.json", "lock.8"]);
  });

  it("is replaced where its process id belongs to a later process", async () => {
    await writeFile(file, JSON.stringify({ ...mine, processStart: "long ago" }));

    expect(await takeLock(paths, mine)).to.equal(undefined);
  });

  it("that says nothing readable is replaced", async () => {
    await writeFile(file, "{");

    expect(await takeLock(paths, mine)).to.equal(undefined);
  });

  it("goes to one of many that start at once over a stale one", async () => {
    await writeFile(file, JSON.stringify({ ...mine, processStart: "long ago" }));
    const ports = [1, 2, 3, 4, 5, 6, 7, 8];

    const holders = await Promise.all(ports.map((port) => takeLock(paths, { ...mine, port })));

    expect(holders.filter((holder) => holder === undefined)).to.have.length(1);
  });

  it("leaves nothing behind when it is given back", async () => {
    await takeLock(paths, mine);
    await releaseLock(paths, mine);

    expect(await readdir(directory)).to.deep.equal([]);
  });

  it("of another is not given back", async () => {
    const other = { ...mine, pid: 1 };
    await writeFile(file, JSON.stringify(other));

    await releaseLock(paths, mine);

    expect(JSON.parse(await readFile(file, "utf8"))).to.deep.equal(other);
  });
});
