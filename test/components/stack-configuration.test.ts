import { expect } from "chai";
import {
  defaultModelOf,
  readStackConfiguration,
  type StackConfiguration,
} from "../../components/stack-configuration.ts";
import { asText } from "../support/pulumi-program.ts";

const LOCAL = { "platform:demo": true };
const SECRET = "postgres.CANARY-value";
const EXISTING = {
  "platform:cluster": "existing",
  "platform:kubeContext": "production",
  "platform:registry": "registry.example.com/platform",
  "platform:agentsNamespace": "agents",
  "platform:providers": { OPENAI_API_KEY: SECRET },
  "platform:oidc": {
    issuer: "https://id.example.com",
    audience: "platform",
    jwksUri: "https://id.example.com/jwks",
  },
};
const SHA256 = "0".repeat(64);

function read(values: Record<string, unknown>): StackConfiguration {
  return readStackConfiguration(asText(values));
}

function refusal(values: Record<string, unknown>): string {
  try {
    read(values);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("The configuration should have been refused.");
}

/** Settings that are wrong, and the key by which the message has to name each. */
const WRONG: [string, Record<string, unknown>, string][] = [
  ["a setting that does not exist", { "platform:replica": SECRET }, "platform:replica"],
  ["another kind of cluster", { "platform:cluster": SECRET }, "platform:cluster"],
  ["a cluster's name with a space", { "platform:clusterName": "CANARY x" }, "platform:clusterName"],
  ["a port that is text", { "platform:hostPort": SECRET }, "platform:hostPort"],
  ["a port over 65535", { "platform:hostPort": 70_000 }, "platform:hostPort"],
  ["half a port", { "platform:hostPort": 80.5 }, "platform:hostPort"],
  ["port 0", { "platform:hostPort": 0 }, "platform:hostPort"],
  [
    "a processor without its system",
    { "platform:imagePlatform": SECRET },
    "platform:imagePlatform",
  ],
  ["another sandbox", { "platform:sandbox": SECRET }, "platform:sandbox"],
  ["an image we do not use", { "platform:images": { nginx: SECRET } }, "platform:images.nginx"],
  ["an image that is no text", { "platform:images": { valkey: 8 } }, "platform:images.valkey"],
  [
    "an artifact we do not use",
    { "platform:artifacts": { kind: { location: SECRET, checksum: SHA256 } } },
    "platform:artifacts.kind",
  ],
  [
    "an artifact without a checksum",
    { "platform:artifacts": { gvisor: { location: SECRET } } },
    "platform:artifacts.gvisor.checksum",
  ],
  [
    "a checksum that is none",
    { "platform:artifacts": { gvisor: { location: "/gvisor.tar", checksum: SECRET } } },
    "platform:artifacts.gvisor.checksum",
  ],
  ["hosts with one left out", { "platform:hosts": { agents: SECRET } }, "platform:hosts.console"],
  [
    "an origin of pages with a path",
    { "platform:corsOrigins": ["https://CANARY.example/x"] },
    "platform:corsOrigins.0",
  ],
  [
    "a provider variable that is none",
    { "platform:providers": { AWS_SECRET: SECRET } },
    "platform:providers.AWS_SECRET",
  ],
  ["providers that are no map", { "platform:providers": SECRET }, "platform:providers"],
  ["demo that is no flag", { "platform:demo": SECRET }, "platform:demo"],
  [
    "fewer replicas at most than at least",
    { "platform:replicas": 3, "platform:autoscaling": { maxReplicas: 2 } },
    "platform:autoscaling.maxReplicas",
  ],
  ["samples that is no flag", { "platform:samples": SECRET }, "platform:samples"],
  [
    "a namespace with a capital",
    { "platform:agentsNamespace": "CANARY" },
    "platform:agentsNamespace",
  ],
  ["Gateway API that is neither", { "platform:gatewayApi": SECRET }, "platform:gatewayApi"],
  ["devTokens that is no flag", { "platform:devTokens": SECRET }, "platform:devTokens"],
  [
    "a database of another make",
    { "platform:database": { url: "mysql://user:CANARY@db/x" } },
    "platform:database.url",
  ],
  ["a database without a URL", { "platform:database": { host: SECRET } }, "platform:database.url"],
  [
    "a database without a role for the model gateway",
    { "platform:database": { url: "postgres://provisioner:CANARY@db/x" } },
    "platform:database.modelGatewayUrl",
  ],
  [
    "a database with one role for both programs",
    {
      "platform:database": {
        url: "postgres://provisioner:CANARY@db/x",
        modelGatewayUrl: "postgres://provisioner:CANARY@db/x",
      },
    },
    "platform:database.modelGatewayUrl",
  ],
  [
    "a cache of another make",
    { "platform:cache": { url: "memcached://CANARY@cache" } },
    "platform:cache.url",
  ],
  [
    "an issuer without keys",
    { "platform:oidc": { issuer: SECRET, audience: SECRET } },
    "platform:oidc.jwksUri",
  ],
  [
    "keys of an issuer that are no URL",
    { "platform:oidc": { issuer: SECRET, audience: SECRET, jwksUri: SECRET } },
    "platform:oidc.jwksUri",
  ],
  [
    "a database that is no URL",
    { "platform:database": { url: SECRET, modelGatewayUrl: SECRET } },
    "platform:database.url",
  ],
  ["no replica", { "platform:replicas": 0 }, "platform:replicas"],
];

describe("the configuration of a stack", () => {
  for (const [what, values, key] of WRONG) {
    it(`names the key of ${what} and does not show its value`, () => {
      const message = refusal({ ...LOCAL, ...values });
      expect(message).to.match(new RegExp(`^ {2}${key.replaceAll(".", "\\.")}: \\S`, "m"));
      expect(message).not.to.include("CANARY");
    });
  }

  it("says which names there are where one does not exist, at whatever depth", () => {
    const message = refusal({
      ...LOCAL,
      "platform:replica": 2,
      "platform:images": { nginx: SECRET },
      "platform:artifacts": { gvisor: { location: "/x", checksum: SHA256, size: SECRET } },
    });
    expect(message)
      .to.match(/platform:replica: .*there are .*\breplicas\b/)
      .and.match(/platform:images\.nginx: .*there are node, base, postgres, valkey, phoenix$/m)
      .and.match(/platform:artifacts\.gvisor\.size: .*there are location, checksum$/m);
  });

  it("says which variables a provider has where one is misspelt, and else those of all", () => {
    const saying = (name: string) =>
      refusal({ ...LOCAL, "platform:providers": { OPENAI_API_KEY: SECRET, [name]: SECRET } });
    expect(saying("OPENAI_BASE_ULR")).to.match(
      /platform:providers\.OPENAI_BASE_ULR: .*there are OPENAI_API_KEY, OPENAI_BASE_URL$/m,
    );
    expect(saying("AWS_SECRET"))
      .to.match(
        /platform:providers\.AWS_SECRET: .*there are OPENAI_API_KEY, .*, VLLM_BACKEND_URL$/m,
      )
      .and.not.include("CANARY");
  });

  it("names all wrong keys at once", () => {
    const message = refusal({ ...LOCAL, "platform:hostPort": 0, "platform:replicas": 0 });
    expect(message).to.include("platform:hostPort").and.to.include("platform:replicas");
  });

  it("names the setting that a file of the installer has as a number", () => {
    const wrong = () => readStackConfiguration(asText(LOCAL), { version: 2 });
    expect(wrong).to.throw("platform:version");
  });

  it("says which provider variables there are where a stack has none", () => {
    const message = refusal({});
    expect(message).to.match(/^ {2}platform:providers: needs at least one of .*OPENAI_API_KEY/m);
    expect(message).to.include("platform:demo");
  });

  for (const key of ["kubeContext", "registry", "oidc"]) {
    it(`asks for platform:${key} where the cluster is an existing one`, () => {
      const { [`platform:${key}`]: _, ...rest } = EXISTING as Record<string, unknown>;
      const message = refusal(rest);
      expect(message).to.match(new RegExp(`^ {2}platform:${key}: is needed`, "m"));
      expect(message).not.to.include("CANARY");
    });
  }

  it("takes the development token, which everybody knows, on no existing cluster", () => {
    expect(refusal({ ...EXISTING, "platform:devTokens": true })).to.include("platform:devTokens");
    expect(read({ ...LOCAL, "platform:devTokens": true }).devTokens).to.equal(true);
  });

  it("gives agents no namespace in which others would lose their network", () => {
    for (const namespace of ["default", "kube-system", "platform"]) {
      const message = refusal({ ...EXISTING, "platform:agentsNamespace": namespace });
      expect(message, namespace).to.match(/^ {2}platform:agentsNamespace: /m);
    }
    const { "platform:agentsNamespace": _, ...rest } = EXISTING;
    expect(refusal(rest)).to.match(/platform:agentsNamespace: is needed where/);
    expect(read(LOCAL).agentsNamespace).to.equal("default");
  });

  it("leaves settings of other programs alone", () => {
    expect(read({ ...LOCAL, "kubernetes:context": "mine" })).not.to.have.property("context");
  });

  it("keeps a version and a context that look like numbers as they are written", () => {
    const configuration = read({
      ...EXISTING,
      "platform:version": "3.0",
      "platform:kubeContext": "12",
    });
    expect(configuration).to.include({ version: "3.0", kubeContext: "12" });
  });

  it("takes what the installer was told before what the stack's file says", () => {
    const own = asText({ ...LOCAL, "platform:hostPort": 1, "platform:replicas": 3 });
    const configuration = readStackConfiguration(own, { hostPort: 2 });
    expect(configuration).to.include({ hostPort: 2, replicas: 3 });
  });

  it("has agents use the model that the stack names, else that of the first provider", () => {
    expect(defaultModelOf(read(EXISTING))).to.match(/^openai\//);
    const named = read({ ...EXISTING, "platform:defaultModel": "openai/other" });
    expect(defaultModelOf(named)).to.equal("openai/other");
  });
});
