import { expect } from "chai";
import OpenAI from "openai";
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
    gateway = await startModelGateway({
      OPENAI_API_KEY: PROVIDER_KEY,
      OPENAI_BASE_URL: provider.url,
    });
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

  it("tells of one model by its id, however an SDK writes the slash", async () => {
    const listed = (await client.models.list()).data[1];
    const authorization = `Bearer ${CONSUMER_TOKEN}`;
    const plain = await fetch(`${gateway.url}/models/${listed?.id}`, {
      headers: { authorization },
    });

    expect(await client.models.retrieve(String(listed?.id))).to.deep.equal(listed);
    expect(await plain.json()).to.deep.equal(listed);
  });

  it("says of a model that nobody lists what OpenAI says, and nothing without a token", async () => {
    const error = await failureOf(client.models.retrieve("nobody/model"));
    const anonymous = await fetch(`${gateway.url}/models/${MODEL}`);
    const posted = await fetch(`${gateway.url}/models/${MODEL}`, { method: "POST" });

    expect(error).to.be.instanceOf(OpenAI.NotFoundError);
    expect(error.error).to.deep.equal({
      message: 'The model "nobody/model" does not exist.',
      type: "invalid_request_error",
      param: null,
      code: "model_not_found",
    });
    expect(anonymous.status).to.equal(401);
    expect(posted.status).to.equal(405);
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
