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
  type StandInProvider,
  startProvider,
  streams,
} from "../support/provider.ts";

const MODEL = "openai/gpt-4o-mini";
const PROVIDER_KEY = "sk-provider-key-0123456789";
const MESSAGES = [{ role: "user" as const, content: "Hello" }];
const WORDS = [
  frame(chunk({ role: "assistant", content: "Twelve " })),
  frame(chunk({ content: "bytes" })),
];

describe("What the model gateway counts", () => {
  let provider: StandInProvider;
  let gateway: TestModelGateway;
  let client: OpenAI;

  async function start(options: Parameters<typeof startModelGateway>[1] = {}) {
    gateway = await startModelGateway(
      { OPENAI_API_KEY: PROVIDER_KEY, OPENAI_BASE_URL: provider.url },
      options,
    );
    client = new OpenAI({ baseURL: gateway.url, apiKey: CONSUMER_TOKEN, maxRetries: 0 });
  }

  beforeEach(async () => {
    provider = await startProvider();
  });

  afterEach(async () => {
    await gateway.stop();
    await provider.stop();
  });

  const ask = () => client.chat.completions.create({ model: MODEL, messages: MESSAGES });
  const askForStream = () =>
    client.chat.completions.create({ model: MODEL, messages: MESSAGES, stream: true });
  const post = (path: string, body: object, headers: Record<string, string> = {}) =>
    fetch(`${gateway.url}/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${CONSUMER_TOKEN}`, ...headers },
      body: JSON.stringify(body),
    });

  describe("a provider that counts nothing", () => {
    it("is billed by what it streamed", async () => {
      await start();
      provider.next(streams([...WORDS, frame(chunk({}, "stop")), DONE]));

      await collect(await askForStream());

      expect(gateway.usage[0]).to.include({
        status: 200,
        input_tokens: 2,
        output_tokens: 3,
        estimated: true,
      });
    });

    it("is billed by what it answered", async () => {
      await start();
      const { usage, ...uncounted } = chatCompletion("m");
      provider.next(answers(uncounted));

      await ask();

      expect(gateway.usage[0]).to.include({
        output_tokens: Math.ceil(STAND_IN_TEXT.length / 4),
        estimated: true,
      });
    });
  });

  describe("a very large answer", () => {
    const large = {
      data: "x".repeat(3 * 1024 * 1024),
      usage: { prompt_tokens: 9, total_tokens: 9 },
    };

    it("comes through whole, and is counted", async () => {
      await start();
      provider.next(answers(large));

      const response = await post("embeddings", { model: "openai/e", input: "x" });

      expect(await response.json()).to.deep.equal(large);
      expect(gateway.usage[0]).to.include({ input_tokens: 9, estimated: false });
    });

    it("that breaks off breaks the client's connection, too", async () => {
      await start();
      provider.next((call, response) => {
        response.setHeader("content-type", "application/json");
        response.write(`{"data":"${large.data}`, () => response.destroy());
        call.written = large.data.length;
      });

      const response = await post("embeddings", { model: "openai/e", input: "x" });

      expect(await failureOf(response.text())).to.be.instanceOf(Error);
      expect(gateway.usage[0]).to.include({ status: 502 });
    });
  });
});
