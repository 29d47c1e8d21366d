import { expect } from "chai";
import { readRefusal } from "../../runtime/model-gateway/refusal.ts";
import { retryAfterMs } from "../../runtime/model-gateway/upstream.ts";

async function refusalOf(body: string, status = 400) {
  const pieces = (async function* () {
    yield Buffer.from(body);
  })();
  const rest = pieces[Symbol.asyncIterator]();
  const answer = { status, headers: {}, first: await rest.next(), rest };
  return JSON.parse(
    await readRefusal(answer, "gemini", ["sk-secret"], new AbortController().signal),
  );
}

describe("A provider's refusal", () => {
  it("keeps its fields where it has OpenAI's shape, without the key", async () => {
    const body = { error: { message: "sk-secret and sk-secret are no keys", type: "x", extra: 1 } };

    expect(await refusalOf(JSON.stringify(body))).to.deep.equal({
      error: { message: "[redacted] and [redacted] are no keys", type: "x", extra: 1 },
    });
  });

  it("is put in OpenAI's shape where it has another", async () => {
    const shapes = [
      JSON.stringify([{ error: { code: 400, message: "no such model", status: "INVALID" } }]),
      JSON.stringify({ error: "no such model" }),
      JSON.stringify({ object: "error", message: "no such model", code: 404 }),
      "no such model\n",
    ];
    for (const shape of shapes) {
      expect(await refusalOf(shape), shape).to.deep.equal({
        error: {
          message: "no such model",
          type: "invalid_request_error",
          param: null,
          code: "upstream_refused",
        },
      });
    }
  });

  it("names the provider where it says nothing", async () => {
    expect(await refusalOf("", 404)).to.have.nested.property(
      "error.message",
      "The provider gemini answered 404.",
    );
  });
});

describe("The pause that a provider asks for", () => {
  it("is read in seconds, in milliseconds and as a date", () => {
    expect(retryAfterMs({ "retry-after": "2" })).to.equal(2_000);
    expect(retryAfterMs({ "retry-after": "2", "retry-after-ms": "150" })).to.equal(150);
    expect(retryAfterMs({ "retry-after": new Date(0).toUTCString() })).to.equal(0);
    expect(retryAfterMs({ "retry-after": "soon" })).to.equal(undefined);
    expect(retryAfterMs({})).to.equal(undefined);
  });
});
