import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { UserError } from "../../runtime/common/errors.ts";
import { loadSecrets } from "../../runtime/embedded/secrets.ts";

describe("the secrets of a data directory", () => {
  let directory: string;
  let file: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "platform-secrets-"));
    file = join(directory, "secrets.json");
  });

  afterEach(() => rm(directory, { recursive: true, force: true }));

  it("are made once, and read again by later starts", async () => {
    const first = await loadSecrets(file);

    expect(await loadSecrets(file)).to.deep.equal(first);
    expect((await stat(file)).mode & 0o777).to.equal(0o600);
  });

  it("are all different", async () => {
    const { databasePasswords, consolePassword, consoleSessionSecret, workerToken } =
      await loadSecrets(file);
    const all = [
      ...Object.values(databasePasswords),
      consolePassword,
      consoleSessionSecret,
      workerToken,
    ];

    expect(new Set(all).size).to.equal(all.length);
  });

  for (const [what, text] of [
    ["cut off", '{"version": 1, "databasePass'],
    ["empty", ""],
    ["without a password", '{"version": 1}'],
  ] as const) {
    it(`that are ${what} are an error, and never made anew`, async () => {
      await writeFile(file, text);

      const error = await loadSecrets(file).catch((reason) => reason);

      expect(error).to.be.instanceOf(UserError);
      expect(error.message).to.include(file);
      expect(await readFile(file, "utf8")).to.equal(text);
    });
  }
});
