import * as pulumi from "@pulumi/pulumi";
import { expect } from "chai";
import { ed25519Pem } from "../../components/assertion-keys.ts";
import {
  CANARY,
  CANARY_SEED,
  inClear,
  isSecret,
  plain,
  type Registered,
} from "../support/pulumi-monitor.ts";
import { configOf, localStack, PROVIDERS, runProgram } from "../support/pulumi-program.ts";

const SEED_PEM = ed25519Pem(CANARY_SEED);
const SIGNS = [CANARY, CANARY_SEED, "PRIVATE KEY"];

describe("the secrets of a stack", () => {
  let resources: Registered[];
  let result: Record<string, unknown>;

  before(async () => {
    ({ resources, result } = await localStack());
  });

  const named = (name: string): Registered => {
    const found = resources.find((resource) => resource.name === name && resource.custom);
    if (found === undefined) throw new Error(`There is no resource ${name}.`);
    return found;
  };
  /** The resources that hold a value, in clear or not. */
  const holdersOf = (value: string) =>
    resources
      .filter(({ inputs }) => JSON.stringify(plain(inputs)).includes(value))
      .map(({ name }) => name);

  it("are in clear in no resource's inputs, so in no state", () => {
    for (const { urn, inputs } of resources) {
      const leaks = inClear(inputs).filter((text) => SIGNS.some((sign) => text.includes(sign)));
      expect(leaks, urn).to.deep.equal([]);
    }
  });

  it("are all known to this test: it would see each of them", () => {
    for (const sign of [...Object.values(PROVIDERS), `${CANARY}-platform-postgres-superuser`]) {
      expect(holdersOf(sign), sign).not.to.deep.equal([]);
    }
    expect(holdersOf(JSON.stringify(SEED_PEM).slice(1, -1))).not.to.deep.equal([]);
  });

  it("leave the cluster's, the passwords' and the keys' providers as secrets", () => {
    expect(named("cluster").additionalSecretOutputs).to.include("kubeconfig");
    for (const { type, name, additionalSecretOutputs } of resources) {
      const [, , kind] = type.split(":");
      if (kind === "RandomPassword") expect(additionalSecretOutputs, name).to.include("result");
      if (kind === "RandomBytes") expect(additionalSecretOutputs, name).to.include("base64");
      if (kind === "Secret") expect(additionalSecretOutputs, name).to.include("stringData");
    }
  });

  it("come out of the stack marked: the tracing UI's password", async () => {
    const { password } = result.tracing as { password: pulumi.Output<string> };
    expect(await pulumi.isSecret(password)).to.equal(true);
  });

  it("of providers go to the model gateway and nowhere else", () => {
    for (const value of Object.values(PROVIDERS)) {
      expect(holdersOf(value)).to.deep.equal(["platform-model-gateway-program-environment"]);
    }
  });

  describe("of providers, in the shell of an update,", () => {
    const { OPENAI_API_KEY: kept } = process.env;
    before(() => {
      process.env.OPENAI_API_KEY = `${CANARY}-of-the-shell`;
    });
    after(() => {
      if (kept === undefined) delete process.env.OPENAI_API_KEY;
      else process.env.OPENAI_API_KEY = kept;
    });
    const textOf = async (stack: string, config: Record<string, string>) => {
      const { resources: made } = await runProgram(
        { ...configOf("Pulumi.local.yaml"), "platform:demo": "true", ...config },
        { stack },
      );
      return JSON.stringify(made.map(({ inputs }) => plain(inputs)));
    };

    it("count where the local stack names none", async () => {
      expect(await textOf("local", {})).to.include("of-the-shell");
    });

    it("change nothing where it does, be it that there are none", async () => {
      expect(await textOf("local", { "platform:providers": "{}" }))
        .to.include("DEMO_PROVIDER")
        .and.not.include("of-the-shell");
    });

    it("never count for another stack, which a team shares", async () => {
      expect(await textOf("production", {}))
        .to.include("DEMO_PROVIDER")
        .and.not.include("of-the-shell");
    });
  });

  it("of the database's owner stay with the database", () => {
    expect(holdersOf(`${CANARY}-platform-postgres-superuser-password`)).to.deep.equal([
      "platform-postgres-credentials",
    ]);
  });

  it("of the provisioner go to the provisioner alone", () => {
    expect(holdersOf(`${CANARY}-platform-postgres-provisioner-password`)).to.have.members([
      "platform-postgres-credentials",
      "platform-provisioner-program-environment",
    ]);
    expect(holdersOf(`${CANARY}-platform-valkey-admin-password`)).to.have.members([
      "platform-valkey-users",
      "platform-provisioner-program-environment",
    ]);
  });

  it("of the gateway, by which it vouches for callers, go to the gateway alone", () => {
    expect(holdersOf("PRIVATE KEY")).to.deep.equal(["platform-gateway-program-environment"]);
  });

  it("of nobody go to an agent", () => {
    const agents = resources.filter(({ urn }) => urn.includes("platform:agent:Agent"));
    expect(agents).not.to.deep.equal([]);
    for (const { inputs } of agents) {
      expect(JSON.stringify(plain(inputs)))
        .not.to.include(CANARY)
        .and.not.to.include("KEY");
    }
  });

  it("roll the pods that use them when they change, by a mark that tells nothing", () => {
    for (const program of ["gateway", "model-gateway", "provisioner"]) {
      const { inputs } = named(`platform-${program}-program-deployment`);
      expect(isSecret(inputs.spec), program).to.equal(false);
      const [mark] = JSON.stringify(inputs).match(/"platform.dev\/environment":"[^"]*"/) ?? [];
      expect(mark, program).to.match(/"[0-9a-f]{16}"$/);
    }
  });
});
