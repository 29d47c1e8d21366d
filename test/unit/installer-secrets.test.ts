import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { readArguments } from "../../installer/arguments.ts";
import { gatherSettings } from "../../installer/settings.ts";
import { setSecrets } from "../../installer/stack.ts";

const KEY = "sk-CANARY";

describe("the secrets that the installer is given", () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "platform-installer-"));
  });
  afterEach(() => rm(directory, { recursive: true }));

  const gather = async (environment: NodeJS.ProcessEnv, file?: object) => {
    const path = join(directory, "settings.json");
    await writeFile(path, JSON.stringify(file ?? {}));
    return gatherSettings(readArguments(["--config", path]), environment, {});
  };

  it("are the providers' variables of the environment, empty ones and others left out", async () => {
    const { secrets } = await gather({
      ...{ OPENAI_API_KEY: KEY, GEMINI_API_KEY: "", PATH: "/bin" },
      ...{ OPENAI_ADMIN_KEY: "of-another-program", OLLAMA_MODELS: "/data/models" },
    });
    expect(secrets).to.deep.equal({ providers: { OPENAI_API_KEY: KEY } });
  });

  it("are not among the settings that are kept in clear, be they from the file either", async () => {
    const file = {
      "platform:providers": { GEMINI_API_KEY: KEY, OPENAI_API_KEY: "of-the-file" },
      "platform:database": { url: `postgres://a:${KEY}@db/x` },
      "platform:cache": { url: `redis://a:${KEY}@cache` },
      "platform:replicas": 2,
    };
    const { settings, secrets } = await gather({ OPENAI_API_KEY: "of-the-shell" }, file);
    expect(settings).to.deep.equal({ replicas: 2 });
    expect(secrets).to.deep.equal({
      providers: { GEMINI_API_KEY: KEY, OPENAI_API_KEY: "of-the-file" },
      database: file["platform:database"],
      cache: file["platform:cache"],
    });
  });

  it("are handed to Pulumi to encrypt by its standard input, which nobody else sees", async () => {
    const command = join(directory, "pulumi");
    const log = (name: string) => join(directory, name);
    await writeFile(
      command,
      `#!/bin/sh\necho "$*" >>'${log("arguments")}'\ncat >>'${log("input")}'\n`,
    );
    await chmod(command, 0o755);
    await setSecrets(command, "/checkout", { providers: { OPENAI_API_KEY: KEY } });
    expect(JSON.parse(await readFile(log("input"), "utf8"))).to.deep.equal({ OPENAI_API_KEY: KEY });
    expect(await readFile(log("arguments"), "utf8"))
      .to.match(/^config set --secret platform:providers --stack local --cwd \/checkout /)
      .and.not.include(KEY);
  });
});
