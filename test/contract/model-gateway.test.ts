import { expect } from "chai";
import OpenAI from "openai";
import { createAssertionSigner } from "../../runtime/common/identity.ts";
import { collect } from "../support/collect.ts";
import { failureOf } from "../support/failure.ts";
import {
  CONSUMER_TOKEN,
  startModelGateway,
  type TestModelGateway,
} from "../support/model-gateway.ts";
import {
  answers,
  chatCompletion,
  chunk,
  DONE,
  frame,
  STAND_IN_TEXT,
  STAND_IN_USAGE,
  type StandInProvider,
  startProvider,
  streams,
} from "../support/provider.ts";

const MODEL = "openai/gpt-4o-mini";
const PROVIDER_KEY = "sk-provider-key-0123456789";
const AGENT_TOKEN = "agent-token";
const MESSAGES = [{ role: "user" as const, content: "Hello" }];
const TOOLS = [
  {
    type: "function" as const,
    function: { name: "lookup", parameters: { type: "object", properties: {} } },
  },
];

describe("The model gateway, through the openai SDK", () => {
  let provider: StandInProvider;
  let gateway: TestModelGateway;
  let client: OpenAI;

  beforeEach(async () => {
    provider = await startProvider();
    gateway = await startModelGateway(
      { OPENAI_API_KEY: PROVIDER_KEY, OPENAI_BASE_URL: provider.url },
      { tokens: { [AGENT_TOKEN]: { tenant: "owner", agent: "assistant" } } },
    );
    client = new OpenAI({ baseURL: gateway.url, apiKey: CONSUMER_TOKEN });
  });

  afterEach(async () => {
    await gateway.stop();
    await provider.stop();
  });

  it("answers a chat completion", async () => {
    const completion = await client.chat.completions.create({ model: MODEL, messages: MESSAGES });

    expect(completion.choices[0]?.message.content).to.equal(STAND_IN_TEXT);
    expect(completion.usage).to.deep.equal(STAND_IN_USAGE);
    expect(provider.calls[0]?.path).to.equal("/v1/chat/completions");
    expect(provider.calls[0]?.body).to.deep.equal({ model: "gpt-4o-mini", messages: MESSAGES });
  });

  it("splits the model id at the first slash only", async () => {
    await client.chat.completions.create({ model: "openai/team/tuned/v2", messages: MESSAGES });

    expect(provider.calls[0]?.body.model).to.equal("team/tuned/v2");
  });

  it("streams a chat completion and leaves out the usage that the client did not ask for", async () => {
    const stream = await client.chat.completions.create({
      model: MODEL,
      messages: MESSAGES,
      stream: true,
    });
    const chunks = await collect(stream);

    expect(chunks.map((part) => part.choices[0]?.delta.content ?? "").join("")).to.equal(
      STAND_IN_TEXT,
    );
    expect(chunks.every((part) => part.choices.length === 1)).to.equal(true);
    expect(provider.calls[0]?.body.stream_options).to.deep.equal({ include_usage: true });
    expect(gateway.usage[0]).to.include({ input_tokens: 11, output_tokens: 7, estimated: false });
  });

  it("leaves in the usage that the client did ask for", async () => {
    const stream = await client.chat.completions.create({
      model: MODEL,
      messages: MESSAGES,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await collect(stream);

    expect(chunks.at(-1)?.usage).to.deep.equal(STAND_IN_USAGE);
  });

  it("passes tools and tool calls through untouched", async () => {
    const call = { id: "call_1", type: "function", function: { name: "lookup", arguments: "{}" } };
    provider.next(
      answers(chatCompletion("gpt-4o-mini", { content: null, tool_calls: [call] })),
      streams([
        frame(chunk({ role: "assistant", tool_calls: [{ index: 0, ...call }] })),
        frame(chunk({}, "tool_calls")),
        DONE,
      ]),
    );

    const whole = await client.chat.completions.create({
      model: MODEL,
      messages: MESSAGES,
      tools: TOOLS,
      tool_choice: "auto",
    });
    const streamed = await client.chat.completions
      .stream({ model: MODEL, messages: MESSAGES, tools: TOOLS })
      .finalChatCompletion();

    expect(whole.choices[0]?.message.tool_calls).to.deep.equal([call]);
    expect(streamed.choices[0]?.message.tool_calls?.[0]).to.deep.include({ id: "call_1" });
    expect(provider.calls[0]?.body.tools).to.deep.equal(TOOLS);
    expect(provider.calls[0]?.body.tool_choice).to.equal("auto");
  });

  it("answers embeddings", async () => {
    const list = await client.embeddings.create({ model: "openai/embed", input: ["one", "two"] });

    expect(list.data.map(({ embedding }) => embedding)).to.deep.equal([
      [0.25, -0.5, 1],
      [0.25, -0.5, 1],
    ]);
    expect(gateway.usage[0]).to.include({ model: "embed", input_tokens: 5, output_tokens: 0 });
  });

  it("lists the models of the providers, the default model first, by the ids that calls name", async () => {
    const page = await client.models.list();

    expect(page.data.map(({ id }) => id)).to.deep.equal([
      MODEL,
      "openai/stand-in-large",
      "openai/stand-in-small",
    ]);
  });

  it("says no healthy upstream for a model of no provider, and the SDK asks only once", async () => {
    const error = await failureOf(
      client.chat.completions.create({ model: "nobody/model", messages: MESSAGES }),
    );

    expect(error).to.be.instanceOf(OpenAI.InternalServerError);
    expect(error.status).to.equal(503);
    expect(error.error).to.deep.equal({
      message: "no healthy upstream",
      type: "api_error",
      param: null,
      code: "model_not_found",
    });
    expect(gateway.requests()).to.have.length(1);
  });

  it("refuses a wrong consumer token and a missing one", async () => {
    const stranger = new OpenAI({ baseURL: gateway.url, apiKey: "wrong" });
    const error = await failureOf(
      stranger.chat.completions.create({ model: MODEL, messages: MESSAGES }),
    );
    const bare = await fetch(`${gateway.url}/chat/completions`, { method: "POST", body: "{}" });

    expect(error).to.be.instanceOf(OpenAI.AuthenticationError);
    expect(error.code).to.equal("invalid_api_key");
    expect(bare.status).to.equal(401);
    expect(bare.headers.get("www-authenticate")).to.equal("Bearer");
    expect(provider.calls).to.have.length(0);
  });

  it("passes a provider's own refusal on with its status and its words", async () => {
    const refusal = { message: "max_tokens is too large", type: "invalid_request_error" };
    provider.next(
      answers({ error: { ...refusal, param: "max_tokens", code: "too_large" } }, { status: 400 }),
    );

    const error = await failureOf(
      client.chat.completions.create({ model: MODEL, messages: MESSAGES, max_tokens: 1e6 }),
    );

    expect(error).to.be.instanceOf(OpenAI.BadRequestError);
    expect(error.param).to.equal("max_tokens");
    expect(error.code).to.equal("too_large");
    expect(gateway.usage[0]).to.include({ status: 400, input_tokens: 0, output_tokens: 0 });
  });

  it("books a run's calls on the tenant and the agent of its identity assertion", async () => {
    const signer = await createAssertionSigner(gateway.assertionPrivateKey);
    const assertion = await signer.sign({ tenant: "globex", subject: "kim" }, "assistant");
    const agent = new OpenAI({ baseURL: gateway.url, apiKey: AGENT_TOKEN });

    await agent.chat.completions.create(
      { model: MODEL, messages: MESSAGES },
      { headers: { "x-platform-assertion": assertion } },
    );
    await agent.chat.completions.create({ model: MODEL, messages: MESSAGES });

    expect(gateway.usage.map(({ tenant, agent }) => [tenant, agent])).to.deep.equal([
      ["globex", "assistant"],
      ["owner", "assistant"],
    ]);
    expect(gateway.requests()[0]).to.include({ tenant: "globex", graph_id: "assistant" });
  });

  it("refuses an agent's token with the assertion of a run of another agent, and a forged one", async () => {
    const signer = await createAssertionSigner(gateway.assertionPrivateKey);
    const other = await signer.sign({ tenant: "globex", subject: "kim" }, "other");
    const ask = (assertion: string) =>
      fetch(`${gateway.url}/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${AGENT_TOKEN}`,
          "x-platform-assertion": assertion,
        },
        body: JSON.stringify({ model: MODEL, messages: MESSAGES }),
      });

    expect((await ask(other)).status).to.equal(403);
    expect((await ask(`${other.slice(0, -4)}AAAA`)).status).to.equal(401);
    expect(provider.calls).to.have.length(0);
  });

  it("sends no header of the client to the provider, and none of the provider's own to the client", async () => {
    provider.next(
      answers(chatCompletion("gpt-4o-mini"), {
        headers: {
          "set-cookie": "session=1",
          "x-ratelimit-limit-requests": "500",
          "openai-organization": "the-operator",
          "openai-processing-ms": PROVIDER_KEY,
          "x-request-id": "req_theirs",
          server: "theirs",
        },
      }),
    );

    const response = await fetch(`${gateway.url}/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${CONSUMER_TOKEN}`,
        cookie: "secret=1",
        "x-platform-tenant": "forged",
        "x-api-key": "client-key",
        "x-request-id": "ours-1",
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      },
      body: JSON.stringify({ model: MODEL, messages: MESSAGES }),
    });

    const { host, connection, ...sent } = provider.calls[0]?.headers ?? {};
    expect(sent).to.deep.equal({
      authorization: `Bearer ${PROVIDER_KEY}`,
      accept: "application/json, text/event-stream",
      "accept-encoding": "identity",
      "content-length": sent["content-length"],
      "content-type": "application/json",
      "user-agent": "platform-model-gateway",
    });
    const received = Object.fromEntries(response.headers);
    expect(received).to.have.keys(
      "connection",
      "content-length",
      "content-type",
      "date",
      "keep-alive",
      "x-provider-request-id",
      "x-request-id",
    );
    expect(received["x-request-id"]).to.equal("ours-1");
    expect(received["x-provider-request-id"]).to.equal("req_theirs");
  });

  it("leaves a span with what was asked, what came and what it cost, and no secret", async () => {
    await client.chat.completions.create({ model: MODEL, messages: MESSAGES });
    const stream = await client.chat.completions.create({
      model: MODEL,
      messages: MESSAGES,
      stream: true,
    });
    await collect(stream);

    const spans = gateway.spans();
    expect(spans).to.have.length(2);
    for (const { attributes } of spans) {
      expect(attributes).to.include({
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o-mini",
        "llm.provider": "openai",
        "llm.token_count.prompt": 11,
        "llm.token_count.completion": 7,
        "llm.token_count.total": 18,
        "output.value": STAND_IN_TEXT,
        "platform.tenant": "acme",
      });
      expect(attributes["input.value"]).to.contain("Hello");
    }
    const everything = JSON.stringify(spans.map(({ attributes }) => attributes)) + gateway.logs;
    expect(everything).not.to.contain(PROVIDER_KEY);
    expect(everything).not.to.contain(CONSUMER_TOKEN);
  });

  it("says what it lacks in the same shape: unknown paths, wrong methods, missing endpoints", async () => {
    const unknown = await fetch(`${gateway.url}/audio/speech`, { method: "POST" });
    const method = await fetch(`${gateway.url}/chat/completions`);

    expect(unknown.status).to.equal(404);
    expect(await unknown.json()).to.have.nested.property("error.code", "not_found");
    expect(method.status).to.equal(405);
    expect(method.headers.get("allow")).to.equal("POST");
    expect(await method.json()).to.have.nested.property("error.code", "method_not_allowed");
  });

  it("answers its probes without a token", async () => {
    for (const path of ["/live", "/ready", "/health"]) {
      expect((await fetch(`${gateway.origin}${path}`)).status).to.equal(200);
    }
  });
});
