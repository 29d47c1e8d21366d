import { expect } from "chai";
import { REQUIRED_VALUES, refusal, render } from "../support/helm.ts";

describe("an agent's values", () => {
  const refused: [what: string, values: object, says: RegExp, release?: string][] = [
    ["an unknown field", { graphID: "x" }, /additional properties 'graphID' not allowed/],
    [
      "an unknown field deeper down",
      { image: { ...REQUIRED_VALUES.image, registry: "x" } },
      /at '\/image': additional properties 'registry' not allowed/,
    ],
    ["a graph id that is no name", { graphId: "My Agent" }, /at '\/graphId': 'My Agent' does not/],
    ["a graph id of 64 letters", { graphId: "a".repeat(64) }, /at '\/graphId'/],
    ["a graph id that no label may be", { graphId: "_agent" }, /at '\/graphId'/],
    ["no graph id", { graphId: "" }, /graphId is empty: set the graph id/],
    ["a graph id that is null", { graphId: null }, /missing property 'graphId'/],
    ["no host", { sharedRoute: { host: "" } }, /sharedRoute\.host is empty/],
    ["a host that is a URL", { sharedRoute: { host: "https://a.b" } }, /at '\/sharedRoute\/host'/],
    ["no repository", { image: { tag: "1" } }, /image\.repository is empty/],
    ["neither tag nor digest", { image: { repository: "r" } }, /image\.tag and image\.digest/],
    [
      "a digest that is none",
      { image: { repository: "r", digest: "sha256:1" } },
      /at '\/image\/digest'/,
    ],
    ["no platform", { platform: { releaseName: "" } }, /platform\.releaseName is empty/],
    ["a prefix of another shape", { redis: { prefix: "*" } }, /at '\/redis\/prefix'/],
    ["a prefix within another", { redis: { prefix: "aegra:a:b" } }, /at '\/redis\/prefix'/],
    ["no sandbox without asking", { runtimeClassName: "" }, /would run without a sandbox/],
    ["no sandbox by null", { runtimeClassName: null }, /runtimeClassName/],
    [
      "a sandbox and none at once",
      { sandbox: "none" },
      /sandbox is none but runtimeClassName is gvisor/,
    ],
    ["a sandbox of another word", { sandbox: "off" }, /at '\/sandbox'/],
    ["replicas in words", { replicas: "two" }, /at '\/replicas': got string, want integer/],
    [
      "more replicas at least than at most",
      { autoscaling: { enabled: true, minReplicas: 9 } },
      /minReplicas is greater than autoscaling\.maxReplicas/,
    ],
    [
      "a number as environment",
      { extraEnv: [{ name: "N", value: 8 }] },
      /at '\/extraEnv\/0\/value': got number, want string/,
    ],
    ["a variable twice", { extraEnv: [{ name: "A" }, { name: "A" }] }, /extraEnv has A twice/],
    [
      "a value and a reference",
      { extraEnv: [{ name: "A", value: "1", valueFrom: { fieldRef: { fieldPath: "x" } } }] },
      /A both a value and a valueFrom/,
    ],
    [
      "labels by which the platform knows pods",
      { podLabels: { "app.kubernetes.io/name": "gateway" } },
      /podLabels has app\.kubernetes\.io\/name/,
    ],
    [
      "annotations by which the platform knows agents",
      { deploymentAnnotations: { "platform.dev/tenant": "other" } },
      /deploymentAnnotations has platform\.dev\/tenant/,
    ],
    [
      "a way out to everywhere",
      { networkPolicy: { extraEgress: [{}] } },
      /at '\/networkPolicy\/extraEgress\/0': missing property 'to'/,
    ],
    [
      "a way out that takes the metadata address along",
      { networkPolicy: { extraEgress: [{ to: [{ ipBlock: { cidr: "0.0.0.0/0" } }] }] } },
      /opens 0\.0\.0\.0\/0, and so the cloud's metadata address/,
    ],
    ["CAs that are a path", { trustedCertificates: "/ca.pem" }, /at '\/trustedCertificates'/],
    [
      "a private key among the CAs",
      { trustedCertificates: "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----" },
      /trustedCertificates has a private key/,
    ],
    [
      "CAs and a file of CAs of its own",
      {
        trustedCertificates: "-----BEGIN CERTIFICATE-----",
        extraEnv: [{ name: "NODE_EXTRA_CA_CERTS", value: "/ca.pem" }],
      },
      /extraEnv has NODE_EXTRA_CA_CERTS: the platform sets it/,
    ],
    ["a release that begins with a digit", {}, /release name 9lives begins with a digit/, "9lives"],
  ];
  for (const [what, values, says, release] of refused) {
    it(`are refused with ${what}`, async () => {
      expect(await refusal(values, release)).to.match(says);
    });
  }

  it("are told all that is wrong at once", async () => {
    const text = await refusal({ graphId: "", runtimeClassName: "", image: { repository: "r" } });
    expect(text).to.match(/graphId is empty.*image\.tag.*without a sandbox/s);
  });

  for (const name of [
    "OPENAI_API_KEY",
    "OLLAMA_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "VLLM_API_KEY",
    "HF_TOKEN",
    "openai_api_key",
  ]) {
    it(`are refused with ${name}, and its value is not repeated`, async () => {
      const text = await refusal({ extraEnv: [{ name, value: "very-secret" }] });
      expect(text).to.include(`extraEnv has ${name}: keys of model providers must not be placed`);
      expect(text).to.include("workspace.models.providers");
      expect(text).to.not.include("very-secret");
    });
  }

  it("are refused with a provider's key out of a Secret: it would still be on the agent", async () => {
    const valueFrom = { secretKeyRef: { name: "mine", key: "key" } };
    const text = await refusal({ extraEnv: [{ name: "OPENAI_API_KEY", valueFrom }] });
    expect(text).to.include("extraEnv has OPENAI_API_KEY");
  });

  for (const prefix of ["sk-", "sk-ant-", "sk-proj-", "gsk_", "hf_"]) {
    it(`are refused with a value like ${prefix}… under any name`, async () => {
      const value = `${prefix}${"a1B2".repeat(8)}`;
      const text = await refusal({ extraEnv: [{ name: "INNOCENT", value }] });
      expect(text).to.include("looks like a model provider's key, under INNOCENT");
      expect(text).to.not.include(value);
    });
  }

  for (const name of ["DATABASE_URL", "REDIS_URL", "ASSERTION_PUBLIC_KEY", "OPENAI_BASE_URL"]) {
    it(`are refused with ${name}, which the platform sets`, async () => {
      const text = await refusal({ extraEnv: [{ name, value: "x" }] });
      expect(text).to.include(`extraEnv has ${name}: the platform sets it`);
    });
  }

  for (const name of [
    "SEARCH_API_KEY",
    "NODE_EXTRA_CA_CERTS",
    "DEFAULT_LLM_MODEL",
    "OPENAI_ORGANISATION",
    "TOKEN_LIMIT",
  ]) {
    it(`may have ${name}`, async () => {
      await render({ extraEnv: [{ name, value: "anything" }] });
    });
  }

  it("may open the internet without the metadata address", async () => {
    const ipBlock = { cidr: "0.0.0.0/0", except: ["10.0.0.0/8", "169.254.0.0/16"] };
    await render({ networkPolicy: { extraEgress: [{ to: [{ ipBlock }] }] } });
  });
});
