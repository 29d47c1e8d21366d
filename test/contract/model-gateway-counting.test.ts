import { expect } from "chai";
import { collect } from "../support/collect.ts";
import { failureOf } from "../support/failure.ts";
import { setModelStage, WORDS } from "../support/model-stage.ts";
import {
  answers,
  chatCompletion,
  chunk,
  DONE,
  frame,
  STAND_IN_TEXT,
  streams,
} from "../support/provider.ts";

describe("What the model gateway counts", () => {
  const stage = setModelStage();
  const { start, ask, askForStream, post } = stage;

  describe("a provider that counts nothing", () => {
    it("is billed by what it streamed", async () => {
      await start();
      stage.provider.next(streams([...WORDS, frame(chunk({}, "stop")), DONE]));

      await collect(await askForStream());

      expect(stage.gateway.usage[0]).to.include({
        status: 200,
        input_tokens: 2,
        output_tokens: 3,
        estimated: true,
      });
    });

    it("is billed by what it answered", async () => {
      await start();
      const { usage, ...uncounted } = chatCompletion("m");
      stage.provider.next(answers(uncounted));

      await ask();

      expect(stage.gateway.usage[0]).to.include({
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
      stage.provider.next(answers(large));

      const response = await post("embeddings", { model: "openai/e", input: "x" });

      expect(await response.json()).to.deep.equal(large);
      expect(stage.gateway.usage[0]).to.include({ input_tokens: 9, estimated: false });
    });

    it("that breaks off breaks the client's connection, too", async () => {
      await start();
      stage.provider.next((call, response) => {
        response.setHeader("content-type", "application/json");
        response.write(`{"data":"${large.data}`, () => response.destroy());
        call.written = large.data.length;
      });

      const response = await post("embeddings", { model: "openai/e", input: "x" });

      expect(await failureOf(response.text())).to.be.instanceOf(Error);
      expect(stage.gateway.usage[0]).to.include({ status: 502 });
    });
  });
});
