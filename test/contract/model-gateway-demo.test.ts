import { expect } from "chai";
import OpenAI from "openai";
import { collect } from "../support/collect.ts";
import {
  CONSUMER_TOKEN,
  startModelGateway,
  TENANT,
  type TestModelGateway,
} from "../support/model-gateway.ts";

const MODEL = "demo/echo";
const NOTICE = "demo provider: no model was asked";
const TOOLS = [
  {
    type: "function" as const,
    function: {
      name: "current_time",
      description: "The current time in a time zone.",
      parameters: {
        type: "object",
        properties: { zone: { type: "string" }, note: { type: "string" } },
        required: ["zone"],
      },
    },
  },
  {
    type: "function" as const,
    function: {
      name: "add_numbers",
      description: "Adds two numbers.",
      parameters: { type: "object" },
    },
  },
];
const asks = (content: string) => ({ role: "user" as const, content });

describe("The demo provider", () => {
  let gateway: TestModelGateway;
  let client: OpenAI;

  beforeEach(async () => {
    gateway = await startModelGateway({ DEMO_PROVIDER: "true" });
    client = new OpenAI({ baseURL: gateway.url, apiKey: CONSUMER_TOKEN });
  });
  afterEach(() => gateway.stop());

  it("answers, and says that no model did", async () => {
    const { choices, usage } = await client.chat.completions.create({
      model: MODEL,
      messages: [asks("Hello there")],
    });

    expect(choices[0]?.message.content).to.contain(NOTICE).and.to.contain("Hello there");
    expect(choices[0]?.finish_reason).to.equal("stop");
    expect(usage?.total_tokens).to.be.greaterThan(0);
  });

  it("streams the same words one by one", async () => {
    const messages = [asks("Grüße\n und 世界")];
    const whole = await client.chat.completions.create({ model: MODEL, messages });
    const stream = await client.chat.completions.create({
      model: MODEL,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await collect(stream);
    const words = chunks.map(({ choices }) => choices[0]?.delta.content ?? "");

    expect(words.join("")).to.equal(whole.choices[0]?.message.content);
    expect(words.filter(Boolean).length).to.be.greaterThan(5);
    expect(chunks.at(-1)?.usage).to.deep.equal(whole.usage);
  });

  it("calls the tool that the question mentions, with arguments that its schema allows", async () => {
    const request = { model: MODEL, messages: [asks("What time is it?")], tools: TOOLS };
    const whole = await client.chat.completions.create(request);
    const streamed = await client.chat.completions.stream(request).finalChatCompletion();

    for (const { choices } of [whole, streamed]) {
      expect(choices[0]?.finish_reason).to.equal("tool_calls");
      expect(choices[0]?.message.tool_calls?.[0]).to.deep.include({
        type: "function",
        function: { name: "current_time", arguments: '{"zone":""}' },
      });
    }
  });

  it("reports what the tool answered", async () => {
    const question = asks("What time is it?");
    const call = {
      id: "call_1",
      type: "function" as const,
      function: { name: "current_time", arguments: "{}" },
    };
    const { choices } = await client.chat.completions.create({
      model: MODEL,
      tools: TOOLS,
      messages: [
        question,
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "call_1", content: "half past nine" },
      ],
    });

    expect(choices[0]?.message.content)
      .to.contain(NOTICE)
      .and.to.contain("current_time answered: half past nine");
  });

  it("calls a tool again when the user asks again, and none that nobody mentioned", async () => {
    const again = await client.chat.completions.create({
      model: MODEL,
      tools: TOOLS,
      messages: [
        asks("What time is it?"),
        { role: "tool", tool_call_id: "call_1", content: "nine" },
        { role: "assistant", content: "Nine." },
        asks("And the time now?"),
      ],
    });
    const none = await client.chat.completions.create({
      model: MODEL,
      tools: TOOLS,
      messages: [asks("Tell me a joke")],
    });

    expect(again.choices[0]?.finish_reason).to.equal("tool_calls");
    expect(none.choices[0]?.finish_reason).to.equal("stop");
  });

  it("heeds tool_choice", async () => {
    const messages = [asks("What time is it?")];
    const toolCalled = async (tool_choice: OpenAI.ChatCompletionToolChoiceOption) => {
      const request = { model: MODEL, messages, tools: TOOLS, tool_choice };
      const [choice] = (await client.chat.completions.create(request)).choices;
      const call = choice?.message.tool_calls?.[0];
      return call?.type === "function" ? call.function.name : undefined;
    };

    expect(await toolCalled("none")).to.equal(undefined);
    expect(await toolCalled("required")).to.equal("current_time");
    expect(await toolCalled({ type: "function", function: { name: "add_numbers" } })).to.equal(
      "add_numbers",
    );
  });

  it("makes embeddings that repeat, and marks them", async () => {
    const request = { model: MODEL, input: ["one", "two", "one"], dimensions: 4 };
    const decoded = await client.embeddings.create(request);
    const plain = await client.embeddings.create({ ...request, encoding_format: "float" });
    const [one, two, again] = decoded.data.map(({ embedding }) => embedding);

    expect(one).to.have.length(4);
    expect(one).to.deep.equal(again).and.not.to.deep.equal(two);
    expect(Math.hypot(...(one ?? []))).to.be.closeTo(1, 1e-6);
    expect(plain.data[0]?.embedding.map(Math.fround)).to.deep.equal(one);
    expect(plain).to.include({ demo: true, model: MODEL });
  });

  it("is listed, booked and traced like any provider", async () => {
    await client.chat.completions.create({ model: MODEL, messages: [asks("Hello")] });
    const { data } = await client.models.list();

    expect(data).to.deep.equal([{ id: MODEL, object: "model", created: 0, owned_by: "demo" }]);
    expect(gateway.usage[0]).to.include({ tenant: TENANT, provider: "demo", estimated: false });
    expect(gateway.spans()[0]?.attributes).to.include({ "llm.provider": "demo" });
  });

  it("is not there unless it was asked for", async () => {
    const without = await startModelGateway({ OPENAI_API_KEY: "sk-x" });
    const response = await fetch(`${without.url}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${CONSUMER_TOKEN}` },
      body: JSON.stringify({ model: MODEL, messages: [asks("Hello")] }),
    });
    await without.stop();

    expect(response.status).to.equal(503);
    expect(response.headers.get("x-should-retry")).to.equal("false");
  });
});
