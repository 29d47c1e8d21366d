import { expect } from "chai";
import {
  CONSUMER_TOKEN,
  startModelGateway,
  type TestModelGateway,
} from "../support/model-gateway.ts";

const user = { role: "user", content: "hi" };
const chat = (fields: object) =>
  JSON.stringify({ model: "demo/echo", messages: [user], ...fields });
const said = (message: unknown) => JSON.stringify({ model: "demo/echo", messages: [message] });
const embed = (fields: object) => JSON.stringify({ model: "demo/echo", input: "x", ...fields });
const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

/** The body, and the field that the answer has to name (null: the body as a whole). */
const CHAT: [string | Buffer, string | null][] = [
  ["", null],
  [" ", null],
  ["{", null],
  ["not json", null],
  ["null", null],
  ["[]", null],
  ["42", null],
  ['"text"', null],
  ["true", null],
  ['{"model":"demo/echo",}', null],
  ["{'model':'demo/echo'}", null],
  ["model=demo/echo", null],
  [Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), null],
  [Buffer.from("\u{feff}{}", "utf16le"), null],
  [`{"messages":${deep(200_000)}`, null],
  ["{}", "model"],
  [JSON.stringify({ messages: [user] }), "model"],
  [chat({ model: null }), "model"],
  [chat({ model: 7 }), "model"],
  [chat({ model: "" }), "model"],
  [chat({ model: ["demo/echo"] }), "model"],
  [chat({ model: "demo/echo\u0000" }), "model"],
  [chat({ model: "demo/\necho" }), "model"],
  [chat({ model: "\ud800" }), "model"],
  [chat({ model: "x".repeat(257) }), "model"],
  [JSON.stringify({ model: "demo/echo" }), "messages"],
  [chat({ messages: null }), "messages"],
  [chat({ messages: [] }), "messages"],
  [chat({ messages: {} }), "messages"],
  [chat({ messages: "hi" }), "messages"],
  [said(null), "messages.0"],
  [said("hi"), "messages.0"],
  [said([]), "messages.0"],
  [said({}), "messages.0.role"],
  [said({ role: "wizard", content: "hi" }), "messages.0.role"],
  [said({ role: 1, content: "hi" }), "messages.0.role"],
  [said({ role: "user", content: 1 }), "messages.0.content"],
  [said({ role: "user", content: {} }), "messages.0.content"],
  [said({ role: "user", content: ["hi"] }), "messages.0.content"],
  [said({ role: "user", content: [{ text: "hi" }] }), "messages.0.content"],
  [said({ role: "user", content: "hi", name: 1 }), "messages.0.name"],
  [said({ role: "assistant", tool_calls: "x" }), "messages.0.tool_calls"],
  [said({ role: "tool", content: "x", tool_call_id: 1 }), "messages.0.tool_call_id"],
  [chat({ messages: [user, { role: "user", content: false }] }), "messages.1.content"],
  [chat({ stream: "yes" }), "stream"],
  [chat({ stream: 1 }), "stream"],
  [chat({ stream: true, stream_options: true }), "stream_options"],
  [chat({ stream_options: { include_usage: "yes" } }), "stream_options.include_usage"],
  [chat({ tools: {} }), "tools"],
  [chat({ tools: [{}] }), "tools.0.type"],
  [chat({ tools: [{ type: "function", function: {} }] }), "tools.0.function.name"],
  [chat({ tools: [{ type: "function", function: { name: "" } }] }), "tools.0.function.name"],
  [chat({ tool_choice: 1 }), "tool_choice"],
  [chat({ n: 0 }), "n"],
  [chat({ n: 1.5 }), "n"],
  [chat({ max_tokens: -1 }), "max_tokens"],
  [chat({ max_tokens: "many" }), "max_tokens"],
  [chat({ max_completion_tokens: 0 }), "max_completion_tokens"],
  [chat({ temperature: "hot" }), "temperature"],
  [chat({ top_p: [] }), "top_p"],
  [chat({ stop: 1 }), "stop"],
  [chat({ response_format: "json" }), "response_format"],
  [chat({ user: {} }), "user"],
  // A provider that reads fields in any case would take these for the real ones.
  [chat({ Model: "demo/other" }), "Model"],
  [chat({ STREAM: true }), "STREAM"],
  [chat({ "\u017ftream": true }), "\u017ftream"],
  [
    chat({ stream: true, stream_options: { Include_Usage: false } }),
    "stream_options.Include_Usage",
  ],
  [said({ ...user, Content: "other" }), "messages.0.Content"],
  [`{"model":"demo/echo","messages":[{"role":"user","content":"x"}],"x":${deep(100_000)}}`, null],
];

const EMBEDDINGS: [string, string | null][] = [
  ["", null],
  ["[]", null],
  ["{}", "model"],
  [JSON.stringify({ model: "demo/echo" }), "input"],
  [embed({ input: "" }), "input"],
  [embed({ input: [] }), "input"],
  [embed({ input: {} }), "input"],
  [embed({ input: ["a", 1] }), "input"],
  [embed({ input: [[]] }), "input.0"],
  [embed({ input: [-1] }), "input.0"],
  [embed({ encoding_format: "hex" }), "encoding_format"],
  [embed({ dimensions: 0 }), "dimensions"],
  [embed({ Input: "y" }), "Input"],
];

/** A body as it may stand in the name of a test. */
const shown = (body: string | Buffer) =>
  body
    .toString("latin1")
    .replace(/[^\x20-\x7e]/g, "?")
    .slice(0, 90);

describe("A malformed body", () => {
  let gateway: TestModelGateway;

  before(async () => {
    gateway = await startModelGateway({ DEMO_PROVIDER: "true" });
  });
  after(() => gateway.stop());

  const post = (path: string, body: string | Buffer, headers: Record<string, string> = {}) =>
    fetch(`${gateway.url}/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${CONSUMER_TOKEN}`, ...headers },
      body,
    });

  for (const [path, cases] of [
    ["chat/completions", CHAT],
    ["embeddings", EMBEDDINGS],
  ] as const) {
    for (const [body, param] of cases) {
      it(`is a 400 that names ${param ?? "the body"}: ${path} ${shown(body)}`, async () => {
        const response = await post(path, body);
        const { error } = (await response.json()) as { error: Record<string, unknown> };

        expect(response.status).to.equal(400);
        expect(error).to.have.all.keys("message", "type", "param", "code");
        expect(error).to.include({ type: "invalid_request_error", param });
        expect(error.message).to.be.a("string").that.is.not.empty;
        if (param !== null) expect(error.message).to.contain(param);
      });
    }
  }

  it("too large is a 413, with and without a length", async () => {
    const body = chat({ user: "x".repeat(2 * 1024 * 1024) });
    const chunked = new ReadableStream({
      start(controller) {
        controller.enqueue(Buffer.from(body));
        controller.close();
      },
    });
    const unannounced = await fetch(`${gateway.url}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${CONSUMER_TOKEN}` },
      body: chunked,
      duplex: "half",
    } as RequestInit);

    for (const response of [await post("chat/completions", body), unannounced]) {
      expect(response.status).to.equal(413);
      expect(await response.json()).to.have.nested.property("error.code", "payload_too_large");
    }
  });

  it("compressed is a 415", async () => {
    const response = await post("chat/completions", chat({}), { "content-encoding": "gzip" });

    expect(response.status).to.equal(415);
    expect(await response.json()).to.have.nested.property("error.code", "unsupported_encoding");
  });

  it("of a caller without a token is a 401", async () => {
    const response = await post("chat/completions", "{", { authorization: "Bearer wrong" });

    expect(response.status).to.equal(401);
  });

  it("never was a failure of ours", () => {
    expect(gateway.logs.filter((line) => JSON.parse(line).msg === "request failed")).to.deep.equal(
      [],
    );
    expect(gateway.usage).to.deep.equal([]);
  });
});
