import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { expect } from "chai";
import OpenAI from "openai";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import {
  CONSUMER_TOKEN,
  startModelGateway,
  type TestModelGateway,
} from "../support/model-gateway.ts";
import {
  answers,
  type Behaviour,
  chatCompletion,
  chunk,
  DONE,
  dies,
  diesAfterHeaders,
  frame,
  hangs,
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

describe("When things go wrong at the model gateway", () => {
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

  describe("a client that leaves", () => {
    it("in the middle of a stream ends the provider's work, and what was streamed is billed", async () => {
      await start();
      provider.next(streams(WORDS, { end: "hangs" }));
      const stream = await askForStream();
      const words = stream[Symbol.asyncIterator]();
      await words.next();
      await words.next();

      stream.controller.abort();

      await eventually("the provider sees it", () => provider.calls[0]?.clientGone === true);
      await eventually("the usage is noted", () => gateway.usage.length === 1);
      expect(gateway.usage[0]).to.include({ status: 499, output_tokens: 3, estimated: true });
      expect(gateway.usage[0]?.input_tokens).to.be.greaterThan(0);
      await eventually("the call is logged", () => gateway.requests().length === 1);
      expect(gateway.requests()[0]?.status).to.equal(499);
    });

    it("before the first byte ends the provider's work too", async () => {
      await start();
      provider.next(hangs);
      const abort = new AbortController();
      const call = client.chat.completions.create(
        { model: MODEL, messages: MESSAGES },
        { signal: abort.signal },
      );
      await eventually("the provider has the call", () => provider.calls.length === 1);

      abort.abort();

      expect(await failureOf(call)).to.be.instanceOf(OpenAI.APIUserAbortError);
      await eventually("the provider sees it", () => provider.calls[0]?.clientGone === true);
      await eventually("the call is logged", () => gateway.requests().length === 1);
      expect(gateway.requests()[0]?.status).to.equal(499);
      expect(provider.calls).to.have.length(1);
    });
  });

  it("a client that leaves while it is still sending is no failure of ours", async () => {
    await start();
    const call = request(`${gateway.url}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${CONSUMER_TOKEN}`, "content-length": 1_000 },
    });
    call.on("error", () => {});
    call.write('{"model":', () => call.destroy());

    await eventually("the call is logged", () => gateway.requests().length === 1);
    expect(gateway.requests()[0]?.status).to.equal(499);
    expect(gateway.logs).to.have.length(1);
  });

  it("a slow client slows the provider down, and gets every byte in the end", async () => {
    await start();
    const text = "x".repeat(64 * 1024);
    const frames = [
      ...Array(1_000).fill(frame(chunk({ content: text }))),
      frame(chunk({}, "stop")),
      DONE,
    ];
    const total = frames.reduce((sum, { length }) => sum + length, 0);
    provider.next(streams(frames));

    const response = await startReading(gateway, {
      model: MODEL,
      messages: MESSAGES,
      stream: true,
    });
    response.pause();
    // Nothing moves any more once all buffers in between are full.
    let before = -1;
    let still = 0;
    await eventually("the provider waits", () => {
      const { written = 0 } = provider.calls[0] ?? {};
      still = written > 0 && written === before ? still + 1 : 0;
      before = written;
      return still === 20;
    });
    expect(before).to.be.lessThan(total / 2);

    let received = 0;
    response.on("data", (bytes: Buffer) => {
      received += bytes.length;
    });
    response.resume();
    await once(response, "end");
    expect(received).to.equal(total);
  });

  describe("a stream that breaks off", () => {
    const failing: [string, Behaviour][] = [
      ["by a lost connection", streams(WORDS, { end: "dies" })],
      [
        "in the middle of a frame",
        streams([...WORDS, 'data: {"choices":[{"delta":{"con'], { end: "dies" }),
      ],
      ["without a finish reason or [DONE]", streams(WORDS)],
      ["by falling silent", streams(WORDS, { end: "hangs" })],
    ];
    for (const [how, behaviour] of failing) {
      it(`${how} ends with an error frame and never with [DONE]`, async () => {
        await start({ idleMs: 100 });
        provider.next(behaviour, behaviour);

        const response = await post("chat/completions", {
          model: MODEL,
          messages: MESSAGES,
          stream: true,
        });
        const frames = (await response.text()).split("\n\n");
        const error = await failureOf(askForStream().then(collect));

        expect(frames.slice(0, 2).map((text) => `${text}\n\n`)).to.deep.equal(WORDS);
        expect(JSON.parse(frames[2]?.replace("data: ", "") ?? "")).to.deep.equal({
          error: {
            message: "The provider openai broke off its answer.",
            type: "api_error",
            param: null,
            code: "upstream_broke_off",
          },
        });
        expect(frames.slice(3)).to.deep.equal([""]);
        expect(error).to.be.instanceOf(OpenAI.APIError);
        expect(error.code).to.equal("upstream_broke_off");
        expect(gateway.usage[0]).to.include({ status: 502, output_tokens: 3, estimated: true });
        expect(gateway.spans()[0]?.status.code).to.equal(2);
      });
    }
  });

  describe("a provider that fails before the first byte", () => {
    const passing: [string, Behaviour[]][] = [
      ["502 and 503", [answers("", { status: 502 }), answers("", { status: 503 })]],
      ["504", [answers("<html>", { status: 504, headers: { "content-type": "text/html" } })]],
      ["a lost connection, twice", [dies, dies]],
      ["a connection lost after the headers", [diesAfterHeaders]],
      [
        "429 with a time to wait for",
        [answers("{}", { status: 429, headers: { "retry-after-ms": "1" } })],
      ],
    ];
    for (const [what, behaviours] of passing) {
      it(`is asked again after ${what}`, async () => {
        await start();
        provider.next(...behaviours);

        expect((await ask()).choices[0]?.message.content).to.equal(STAND_IN_TEXT);
        expect(provider.calls).to.have.length(behaviours.length + 1);
        expect(gateway.usage).to.have.length(1);
      });
    }

    it("is asked three times at most, and then it is a 502", async () => {
      await start();
      const busy = answers("the operator's account", {
        status: 503,
        headers: { "retry-after": "0" },
      });
      provider.next(busy, busy, busy);

      const error = await failureOf(ask());

      expect(provider.calls).to.have.length(3);
      expect(error.status).to.equal(502);
      expect(error.code).to.equal("upstream_error");
      expect(error.headers.get("retry-after")).to.equal("0");
      expect(JSON.stringify(error.error)).not.to.contain("account");
    });

    it("with 500 is not asked again", async () => {
      await start();
      provider.next(answers("{}", { status: 500 }));

      expect((await failureOf(ask())).status).to.equal(502);
      expect(provider.calls).to.have.length(1);
    });

    it("with 429 and no time to wait for, or a long one, lets the client decide", async () => {
      await start();
      const refusal = { error: { message: "quota", type: "insufficient_quota" } };
      provider.next(
        answers(refusal, { status: 429 }),
        answers(refusal, { status: 429, headers: { "retry-after": "3600" } }),
      );

      expect(await failureOf(ask())).to.be.instanceOf(OpenAI.RateLimitError);
      const later = await failureOf(ask());
      expect(later.headers.get("retry-after")).to.equal("3600");
      expect(provider.calls).to.have.length(2);
    });

    it("by never answering is a 504 at the deadline", async () => {
      await start({ deadlineMs: 100 });
      provider.next(hangs);

      const error = await failureOf(ask());

      expect(error.status).to.equal(504);
      expect(error.code).to.equal("upstream_timeout");
      await eventually("the provider is let go", () => provider.calls[0]?.clientGone === true);
    });

    it("in the middle of a whole answer is a 504 at the deadline", async () => {
      await start({ deadlineMs: 100 });
      provider.next(starts(200, '{"id":"chatcmpl-1",'), starts(400, '{"error":'));

      expect((await failureOf(ask())).status).to.equal(504);
      expect((await failureOf(ask())).status).to.equal(504);
    });

    it("with an error page that never ends is let go", async () => {
      await start();
      provider.next(starts(503, "<html>"), starts(500, "<html>"));

      expect((await failureOf(ask())).status).to.equal(502);
      expect((await ask()).choices[0]?.message.content).to.equal(STAND_IN_TEXT);
      for (const call of provider.calls.slice(0, 2)) {
        await eventually("the provider is let go", () => call.clientGone);
      }
    });

    it("with a refusal that breaks off is refused all the same", async () => {
      await start();
      provider.next((_call, response) => {
        response.writeHead(404, { "content-length": 500 });
        response.write("no such model", () => response.destroy());
      });

      const error = await failureOf(ask());

      expect(error).to.be.instanceOf(OpenAI.NotFoundError);
      expect(error.message).to.contain("no such model");
    });

    it("by not being there is a 502, and its models are left out of the list", async () => {
      await start();
      await provider.stop();

      const error = await failureOf(ask());
      const models = await client.models.list();

      expect(error.status).to.equal(502);
      expect(error.code).to.equal("upstream_unreachable");
      expect(models.data.map(({ id }) => id)).to.deep.equal([MODEL]);
    });

    it("by answering with a web page is a 502 that asks for the base URL", async () => {
      await start();
      provider.next(answers("<html>", { headers: { "content-type": "text/html" } }));

      expect((await failureOf(ask())).message).to.contain("base URL");
    });
  });

  describe("the provider's key", () => {
    it("stays hidden where the provider refuses it and repeats it", async () => {
      await start();
      for (const status of [401, 403]) {
        provider.next(
          answers(
            { error: { message: `Incorrect API key provided: ${PROVIDER_KEY}`, type: "auth" } },
            { status, headers: { "x-request-id": PROVIDER_KEY, "www-authenticate": PROVIDER_KEY } },
          ),
        );
        const response = await post("chat/completions", { model: MODEL, messages: MESSAGES });
        const text = await response.text();

        expect(response.status).to.equal(502);
        expect(JSON.parse(text)).to.have.nested.property("error.code", "upstream_auth");
        expect(response.headers.get("x-should-retry")).to.equal("false");
        expect(text + JSON.stringify([...response.headers])).not.to.contain(PROVIDER_KEY);
      }
      const kept = gateway.logs.join("") + JSON.stringify(gateway.spans().map((s) => s.attributes));
      expect(kept).not.to.contain(PROVIDER_KEY);
      expect(provider.calls).to.have.length(2);
    });

    it("is cut out of the body and the headers of any other answer that repeats it", async () => {
      await start();
      const headers = { "openai-version": `v1 ${PROVIDER_KEY}`, "x-request-id": PROVIDER_KEY };
      provider.next(
        answers({ error: { message: `bad ${PROVIDER_KEY}` } }, { status: 400, headers }),
        answers(chatCompletion("m"), { headers }),
      );

      const refused = await post("chat/completions", { model: MODEL, messages: MESSAGES });
      const accepted = await post("chat/completions", { model: MODEL, messages: MESSAGES });

      expect(await refused.json()).to.have.nested.property("error.message", "bad [redacted]");
      for (const { headers: received } of [refused, accepted]) {
        expect(JSON.stringify([...received])).not.to.contain(PROVIDER_KEY);
      }
    });
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

/** Sends the beginning of an answer and then nothing more. */
function starts(status: number, text: string): Behaviour {
  return (_call, response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.write(text);
  };
}

/** Asks and gives the response back before its body was read. */
async function startReading({ url }: TestModelGateway, body: object): Promise<IncomingMessage> {
  const call = request(`${url}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${CONSUMER_TOKEN}` },
  });
  call.end(JSON.stringify(body));
  const [response] = (await once(call, "response")) as [IncomingMessage];
  return response;
}
