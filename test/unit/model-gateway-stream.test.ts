import { expect } from "chai";
import { AnswerMeter } from "../../runtime/model-gateway/answer-meter.ts";
import { SseTap } from "../../runtime/model-gateway/sse-tap.ts";
import { chunk, DONE, frame, STAND_IN_USAGE, usageChunk } from "../support/provider.ts";

const TEXT = 'Grüße, 世界 🌍 — "usage" {"usage":{"prompt_tokens":999}} \\ end\n\n';
const CONTENT = [
  ": keep-alive\n\n",
  frame(chunk({ role: "assistant", content: "" }, null, { usage: null })),
  frame(chunk({ content: TEXT }, null, { usage: null })),
  frame(chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] })),
  frame(chunk({}, "stop", { usage: null })),
];
const USAGE = frame(usageChunk());

const asCrlf = (text: string) => text.replaceAll("\n", "\r\n");

function tapped(pieces: Buffer[], keepsUsage: boolean) {
  const meter = new AnswerMeter(1_000);
  const tap = new SseTap(meter, keepsUsage);
  const passed = pieces.flatMap((piece) => tap.push(piece));
  return { text: Buffer.concat([...passed, ...tap.end()]).toString(), meter };
}

describe("A tapped stream", () => {
  for (const [name, lines] of [
    ["LF", (text: string) => text],
    ["CRLF", asCrlf],
  ] as const) {
    it(`comes out the same but for the usage, wherever it is cut (${name})`, () => {
      const bytes = Buffer.from(lines([...CONTENT, USAGE, DONE].join("")));
      const expected = lines([...CONTENT, DONE].join(""));

      for (let cut = 0; cut <= bytes.length; cut++) {
        const { text, meter } = tapped([bytes.subarray(0, cut), bytes.subarray(cut)], false);
        expect(text, `cut at ${cut}`).to.equal(expected);
        expect(meter.usage, `cut at ${cut}`).to.deep.equal({ input: 11, output: 7 });
        expect(meter.output, `cut at ${cut}`).to.equal(TEXT);
      }
    });
  }

  it("comes out the same when it arrives byte by byte", () => {
    const bytes = Buffer.from([...CONTENT, USAGE, DONE].join(""));
    const { text, meter } = tapped(
      [...bytes].map((byte) => Buffer.of(byte)),
      false,
    );

    expect(text).to.equal([...CONTENT, DONE].join(""));
    expect(meter.usage).to.deep.equal({ input: 11, output: 7 });
  });

  it("keeps the usage for a client that asked for it", () => {
    const all = [...CONTENT, USAGE, DONE].join("");

    expect(tapped([Buffer.from(all)], true).text).to.equal(all);
  });

  it("keeps a usage that comes along with a choice, as some providers send it", () => {
    const all = [
      frame(chunk({ content: "a" }, null, { usage: { prompt_tokens: 3, completion_tokens: 1 } })),
      frame(chunk({}, "stop", { usage: { prompt_tokens: 3, completion_tokens: 2 } })),
      DONE,
    ].join("");
    const { text, meter } = tapped([Buffer.from(all)], false);

    expect(text).to.equal(all);
    expect(meter.usage).to.deep.equal({ input: 3, output: 2 });
  });

  it("passes a frame on that no blank line ends", () => {
    expect(tapped([Buffer.from("data: [DONE]")], false).text).to.equal("data: [DONE]");
  });

  it("does not hold back a frame of any size", () => {
    const meter = new AnswerMeter(0);
    const tap = new SseTap(meter, false);
    const piece = Buffer.alloc(300 * 1024, "x");
    const passed = [1, 2, 3, 4, 5, 6].flatMap(() => tap.push(piece));
    const bytes = passed.reduce((sum, { length }) => sum + length, 0);

    expect(bytes).to.be.greaterThan(1024 * 1024);
  });
});

describe("The meter of an answer", () => {
  const look = (json: string) => {
    const meter = new AnswerMeter(1_000);
    meter.look(Buffer.from(json));
    return meter;
  };

  it("counts what the model wrote: text, reasoning, arguments", () => {
    expect(look('{"content":"1234","x":{"arguments":"56"}}').textBytes).to.equal(6);
    expect(look('{"reasoning_content": "abc", "content": null}').textBytes).to.equal(3);
    expect(look('{"content" : "a\\"b"}').textBytes).to.equal(4);
  });

  it("reads the usage wherever it stands and however it is spaced", () => {
    const usage = { ...STAND_IN_USAGE, completion_tokens_details: { note: '}"{' } };
    const spaced = JSON.stringify({ usage, choices: [{ message: { content: "usage" } }] }, null, 2);

    expect(look(spaced).usage).to.deep.equal({ input: 11, output: 7 });
  });

  it("takes no usage from text, and none that makes no sense", () => {
    const inText = JSON.stringify({ content: '"usage":{"prompt_tokens":5}' });

    expect(look(inText).usage).to.equal(undefined);
    expect(look('{"usage":{"prompt_tokens":-5}}').usage).to.equal(undefined);
    expect(look('{"usage":{"prompt_tokens":1e99}}').usage).to.equal(undefined);
    expect(look('{"usage":{"prompt_tokens":').usage).to.equal(undefined);
    expect(look('{"usage":"usage"}').usage).to.equal(undefined);
  });

  it("knows a finished answer from one that was cut short", () => {
    expect(look(frame(chunk({ content: "[DONE] and more and more and more" }))).ended).to.equal(
      false,
    );
    expect(look(frame(chunk({}, "stop"))).ended).to.equal(true);
    expect(look(DONE).ended).to.equal(true);
    expect(look(frame({ error: { message: "overloaded" } })).ended).to.equal(true);
  });
});
