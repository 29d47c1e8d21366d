import { expect } from "chai";
import { UserError } from "../../runtime/common/errors.ts";
import {
  configuredProviders,
  defaultModel,
  findRoute,
  PROVIDER_VARIABLES,
  providerSettings,
} from "../../runtime/model-gateway/providers/registry.ts";

const KEY = "key-0123456789";
const ALL = {
  VLLM_BACKEND_URL: "http://vllm:8000",
  GEMINI_API_KEY: KEY,
  ANTHROPIC_API_KEY: KEY,
  OLLAMA_LOCAL_HOST: "http://127.0.0.1:11434",
  OLLAMA_API_KEY: KEY,
  OPENAI_API_KEY: KEY,
  DEMO_PROVIDER: "true",
};

const baseUrls = (environment: NodeJS.ProcessEnv) =>
  configuredProviders(environment).map((provider) => "baseUrl" in provider && provider.baseUrl);

describe("The providers", () => {
  it("are those of the environment, in the order of the specification", () => {
    expect(configuredProviders(ALL).map((provider) => provider.defaultModel)).to.deep.equal([
      "openai/gpt-4o-mini",
      "gpt-oss:20b",
      "ollama/llama3.2",
      "anthropic/claude-3-5-sonnet",
      "gemini/gemini-2.0-flash",
      "vllm/default",
      "demo/echo",
    ]);
    expect(PROVIDER_VARIABLES).to.deep.equal([
      "OPENAI_API_KEY",
      "OLLAMA_API_KEY",
      "OLLAMA_LOCAL_HOST",
      "ANTHROPIC_API_KEY",
      "GEMINI_API_KEY",
      "VLLM_BACKEND_URL",
    ]);
  });

  it("are told by their own variables and by no other that begins alike", () => {
    const own = {
      ...{ OPENAI_API_KEY: KEY, OPENAI_BASE_URL: "http://mine" },
      ...{ OLLAMA_API_KEY: KEY, OLLAMA_BASE_URL: "http://mine", OLLAMA_CLOUD_MODELS: "a,b" },
      ...{ OLLAMA_LOCAL_HOST: "mine", VLLM_BACKEND_URL: "mine" },
      ...{ ANTHROPIC_API_KEY: KEY, ANTHROPIC_BASE_URL: "http://mine" },
      ...{ GEMINI_API_KEY: KEY, GEMINI_BASE_URL: "http://mine" },
    };
    const others = {
      OPENAI_ADMIN_KEY: KEY,
      OLLAMA_MODELS: "/data/models",
      VLLM_PORT: "1",
      PATH: "/",
    };
    expect(providerSettings({ ...own, ...others })).to.deep.equal(own);
    expect(providerSettings({ OPENAI_API_KEY: "" })).to.deep.equal({});
  });

  it("are none where no variable is set, or only empty ones", () => {
    expect(configuredProviders({})).to.deep.equal([]);
    expect(configuredProviders({ OPENAI_API_KEY: "", DEMO_PROVIDER: "false" })).to.deep.equal([]);
  });

  it("give the default model to the first of them, unless one is named", () => {
    const two = { GEMINI_API_KEY: KEY, ANTHROPIC_API_KEY: KEY };

    expect(defaultModel(two)).to.equal("anthropic/claude-3-5-sonnet");
    expect(defaultModel({ ...two, DEFAULT_LLM_MODEL: "gemini/x" })).to.equal("gemini/x");
    expect(defaultModel({ DEMO_PROVIDER: "true", ...two })).to.equal("anthropic/claude-3-5-sonnet");
    expect(defaultModel({ DEMO_PROVIDER: "true" })).to.equal("demo/echo");
    expect(defaultModel({})).to.equal(undefined);
  });

  it("are reached at their own addresses, each of which can be replaced", () => {
    expect(baseUrls(ALL)).to.deep.equal([
      "https://api.openai.com/v1",
      "https://ollama.com/v1",
      "http://127.0.0.1:11434/v1",
      "https://api.anthropic.com/v1",
      "https://generativelanguage.googleapis.com/v1beta/openai",
      "http://vllm:8000/v1",
      false,
    ]);
    for (const name of ["OPENAI", "OLLAMA", "ANTHROPIC", "GEMINI"]) {
      const urls = baseUrls({ [`${name}_API_KEY`]: KEY, [`${name}_BASE_URL`]: "http://mine/x/" });
      expect(urls, name).to.deep.equal(["http://mine/x"]);
    }
  });

  it("take a server's address with and without scheme, slash and /v1", () => {
    for (const host of ["127.0.0.1:8000", "http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1/"]) {
      expect(baseUrls({ VLLM_BACKEND_URL: host }), host).to.deep.equal([
        "http://127.0.0.1:8000/v1",
      ]);
      expect(baseUrls({ OLLAMA_LOCAL_HOST: host }), host).to.deep.equal([
        "http://127.0.0.1:8000/v1",
      ]);
    }
  });

  it("name the variable that is wrong, and never its value", () => {
    const wrong: [string, NodeJS.ProcessEnv][] = [
      ["OPENAI_BASE_URL", { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: "not a url" }],
      ["OPENAI_BASE_URL", { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: "http://u:hunter2@host/v1" }],
      ["OPENAI_API_KEY", { OPENAI_API_KEY: "hunter2 hunter2" }],
      ["VLLM_BACKEND_URL", { VLLM_BACKEND_URL: "ftp://hunter2" }],
      ["OLLAMA_CLOUD_MODELS", { OLLAMA_API_KEY: KEY, OLLAMA_CLOUD_MODELS: " , " }],
      ["DEMO_PROVIDER", { DEMO_PROVIDER: "hunter2" }],
    ];
    for (const [name, environment] of wrong) {
      expect(() => configuredProviders(environment), name)
        .to.throw(UserError, name)
        .with.property("message")
        .that.does.not.contain("hunter2");
    }
  });

  it("serve their prefix, split at the first slash, or their exact names", () => {
    const providers = configuredProviders({ ...ALL, OLLAMA_CLOUD_MODELS: "gpt-oss:20b, mine:1b" });
    const routeOf = (id: string) => {
      const route = findRoute(providers, id);
      return route && [route.provider.name, route.model];
    };

    expect(routeOf("openai/gpt-4o")).to.deep.equal(["openai", "gpt-4o"]);
    expect(routeOf("vllm/org/model/v1")).to.deep.equal(["vllm", "org/model/v1"]);
    expect(routeOf("mine:1b")).to.deep.equal(["ollama-cloud", "mine:1b"]);
    expect(routeOf("ollama/mine:1b")).to.deep.equal(["ollama", "mine:1b"]);
    expect(routeOf("demo/echo")).to.deep.equal(["demo", "demo/echo"]);
    for (const id of ["gpt-4o", "openai/", "/gpt-4o", "OpenAI/gpt-4o", "gpt-oss:120b", "demo/x"]) {
      expect(routeOf(id), id).to.equal(undefined);
    }
  });

  it("get their keys in the headers that they read", () => {
    const [anthropic] = configuredProviders({ ANTHROPIC_API_KEY: KEY });
    if (anthropic === undefined || !("headers" in anthropic)) throw new Error("no provider");

    expect(anthropic.headers("chat/completions")).to.deep.equal({ authorization: `Bearer ${KEY}` });
    expect(anthropic.headers("models")).to.deep.equal({
      "x-api-key": KEY,
      "anthropic-version": "2023-06-01",
    });
  });
});
