import { expect } from "chai";
import OpenAI from "openai";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { MESSAGES, MODEL, PROVIDER_KEY, setModelStage } from "../support/model-stage.ts";
import {
  answers,
  type Behaviour,
  chatCompletion,
  dies,
  diesAfterHeaders,
  hangs,
  STAND_IN_TEXT,
} from "../support/provider.ts";

describe("When a provider does not answer the model gateway", () => {
  const stage = setModelStage();
  const { start, ask, post } = stage;

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
        stage.provider.next(...behaviours);

        expect((await ask()).choices[0]?.message.content).to.equal(STAND_IN_TEXT);
        expect(stage.provider.calls).to.have.length(behaviours.length + 1);
        expect(stage.gateway.usage).to.have.length(1);
      });
    }

    it("is asked three times at most, and then it is a 502", async () => {
      await start();
      const busy = answers("the operator's account", {
        status: 503,
        headers: { "retry-after": "0" },
      });
      stage.provider.next(busy, busy, busy);

      const error = await failureOf(ask());

      expect(stage.provider.calls).to.have.length(3);
      expect(error.status).to.equal(502);
      expect(error.code).to.equal("upstream_error");
      expect(error.headers.get("retry-after")).to.equal("0");
      expect(JSON.stringify(error.error)).not.to.contain("account");
    });

    it("with 500 is not asked again", async () => {
      await start();
      stage.provider.next(answers("{}", { status: 500 }));

      expect((await failureOf(ask())).status).to.equal(502);
      expect(stage.provider.calls).to.have.length(1);
    });

    it("with 429 and no time to wait for, or a long one, lets the client decide", async () => {
      await start();
      const refusal = { error: { message: "quota", type: "insufficient_quota" } };
      stage.provider.next(
        answers(refusal, { status: 429 }),
        answers(refusal, { status: 429, headers: { "retry-after": "3600" } }),
      );

      expect(await failureOf(ask())).to.be.instanceOf(OpenAI.RateLimitError);
      const later = await failureOf(ask());
      expect(later.headers.get("retry-after")).to.equal("3600");
      expect(stage.provider.calls).to.have.length(2);
    });

    it("by never answering is a 504 at the deadline", async () => {
      await start({ deadlineMs: 100 });
      stage.provider.next(hangs);

      const error = await failureOf(ask());

      expect(error.status).to.equal(504);
      expect(error.code).to.equal("upstream_timeout");
      await eventually(
        "the provider is let go",
        () => stage.provider.calls[0]?.clientGone === true,
      );
    });

    it("in the middle of a whole answer is a 504 at the deadline", async () => {
      await start({ deadlineMs: 100 });
      stage.provider.next(starts(200, '{"id":"chatcmpl-1",'), starts(400, '{"error":'));

      expect((await failureOf(ask())).status).to.equal(504);
      expect((await failureOf(ask())).status).to.equal(504);
    });

    it("with an error page that never ends is let go", async () => {
      await start();
      stage.provider.next(starts(503, "<html>"), starts(500, "<html>"));

      expect((await failureOf(ask())).status).to.equal(502);
      expect((await ask()).choices[0]?.message.content).to.equal(STAND_IN_TEXT);
      for (const call of stage.provider.calls.slice(0, 2)) {
        await eventually("the provider is let go", () => call.clientGone);
      }
    });

    it("with a refusal that breaks off is refused all the same", async () => {
      await start();
      stage.provider.next((_call, response) => {
        response.writeHead(404, { "content-length": 500 });
        response.write("no such model", () => response.destroy());
      });

      const error = await failureOf(ask());

      expect(error).to.be.instanceOf(OpenAI.NotFoundError);
      expect(error.message).to.contain("no such model");
    });

    it("by not being there is a 502, and its models are left out of the list", async () => {
      await start();
      await stage.provider.stop();

      const error = await failureOf(ask());
      const models = await stage.client.models.list();

      expect(error.status).to.equal(502);
      expect(error.code).to.equal("upstream_unreachable");
      expect(models.data.map(({ id }) => id)).to.deep.equal([MODEL]);
    });

    it("by answering with a web page is a 502 that asks for the base URL", async () => {
      await start();
      stage.provider.next(answers("<html>", { headers: { "content-type": "text/html" } }));

      expect((await failureOf(ask())).message).to.contain("base URL");
    });
  });

  describe("the provider's key", () => {
    it("stays hidden where the provider refuses it and repeats it", async () => {
      await start();
      for (const status of [401, 403]) {
        stage.provider.next(
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
      const kept =
        stage.gateway.logs.join("") +
        JSON.stringify(stage.gateway.spans().map((s) => s.attributes));
      expect(kept).not.to.contain(PROVIDER_KEY);
      expect(stage.provider.calls).to.have.length(2);
    });

    it("is cut out of the body and the headers of any other answer that repeats it", async () => {
      await start();
      const headers = { "openai-version": `v1 ${PROVIDER_KEY}`, "x-request-id": PROVIDER_KEY };
      stage.provider.next(
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
});

/** Sends the beginning of an answer and then nothing more. */
function starts(status: number, text: string): Behaviour {
  return (_call, response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.write(text);
  };
}
