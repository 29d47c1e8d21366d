import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { expect } from "chai";
import OpenAI from "openai";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { CONSUMER_TOKEN, type TestModelGateway } from "../support/model-gateway.ts";
import { MESSAGES, MODEL, setModelStage, WORDS } from "../support/model-stage.ts";
import { type Behaviour, chunk, DONE, frame, hangs, streams } from "../support/provider.ts";

describe("When a call breaks off at the model gateway", () => {
  const stage = setModelStage();
  const { start, askForStream, post } = stage;

  describe("a client that leaves", () => {
    it("in the middle of a stream ends the provider's work, and what was streamed is billed", async () => {
      await start();
      stage.provider.next(streams(WORDS, { end: "hangs" }));
      const stream = await askForStream();
      const words = stream[Symbol.asyncIterator]();
      await words.next();
      await words.next();

      stream.controller.abort();

      await eventually("the provider sees it", () => stage.provider.calls[0]?.clientGone === true);
      await eventually("the usage is noted", () => stage.gateway.usage.length === 1);
      expect(stage.gateway.usage[0]).to.include({ status: 499, output_tokens: 3, estimated: true });
      expect(stage.gateway.usage[0]?.input_tokens).to.be.greaterThan(0);
      await eventually("the call is logged", () => stage.gateway.requests().length === 1);
      expect(stage.gateway.requests()[0]?.status).to.equal(499);
    });

    it("before the first byte ends the provider's work too", async () => {
      await start();
      stage.provider.next(hangs);
      const abort = new AbortController();
      const call = stage.client.chat.completions.create(
        { model: MODEL, messages: MESSAGES },
        { signal: abort.signal },
      );
      await eventually("the provider has the call", () => stage.provider.calls.length === 1);

      abort.abort();

      expect(await failureOf(call)).to.be.instanceOf(OpenAI.APIUserAbortError);
      await eventually("the provider sees it", () => stage.provider.calls[0]?.clientGone === true);
      await eventually("the call is logged", () => stage.gateway.requests().length === 1);
      expect(stage.gateway.requests()[0]?.status).to.equal(499);
      expect(stage.provider.calls).to.have.length(1);
    });
  });

  it("a client that leaves while it is still sending is no failure of ours", async () => {
    await start();
    const call = request(`${stage.gateway.url}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${CONSUMER_TOKEN}`, "content-length": 1_000 },
    });
    call.on("error", () => {});
    call.write('{"model":', () => call.destroy());

    await eventually("the call is logged", () => stage.gateway.requests().length === 1);
    expect(stage.gateway.requests()[0]?.status).to.equal(499);
    expect(stage.gateway.logs).to.have.length(1);
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
    stage.provider.next(streams(frames));

    const response = await startReading(stage.gateway, {
      model: MODEL,
      messages: MESSAGES,
      stream: true,
    });
    response.pause();
    // Nothing moves any more once all buffers in between are full.
    let before = -1;
    let still = 0;
    await eventually("the provider waits", () => {
      const { written = 0 } = stage.provider.calls[0] ?? {};
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
        stage.provider.next(behaviour, behaviour);

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
        expect(stage.gateway.usage[0]).to.include({
          status: 502,
          output_tokens: 3,
          estimated: true,
        });
        expect(stage.gateway.spans()[0]?.status.code).to.equal(2);
      });
    }
  });
});

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
