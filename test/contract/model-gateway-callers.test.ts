import { expect } from "chai";
import { importPKCS8, SignJWT } from "jose";
import OpenAI from "openai";
import { createAssertionSigner, generateAssertionKeys } from "../../runtime/common/identity.ts";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import {
  CONSUMER_TOKEN,
  startModelGateway,
  type TestModelGateway,
} from "../support/model-gateway.ts";
import {
  answers,
  chatCompletion,
  STAND_IN_TEXT,
  type StandInProvider,
  startProvider,
} from "../support/provider.ts";
import { carryTraces } from "../support/spans.ts";

const MODEL = "openai/gpt-4o-mini";
const PROVIDER_KEY = "sk-provider-key-0123456789";
const AGENT_TOKEN = "agent-token";
const MESSAGES = [{ role: "user" as const, content: "Hello" }];

describe("What passes the model gateway, and whom it is for", () => {
  let provider: StandInProvider;
  let gateway: TestModelGateway;
  let client: OpenAI;

  beforeEach(async () => {
    provider = await startProvider();
    gateway = await startModelGateway(
      { OPENAI_API_KEY: PROVIDER_KEY, OPENAI_BASE_URL: provider.url },
      { tokens: { [AGENT_TOKEN]: { tenant: "owner", agent: "assistant" } } },
    );
    client = new OpenAI({ baseURL: gateway.url, apiKey: CONSUMER_TOKEN });
  });

  afterEach(async () => {
    await gateway.stop();
    await provider.stop();
  });

  it("books a run's calls on the tenant and the agent of its identity assertion", async () => {
    const signer = await createAssertionSigner(gateway.assertionPrivateKey);
    const assertion = await signer.sign({ tenant: "globex", subject: "kim" }, "assistant");
    const agent = new OpenAI({ baseURL: gateway.url, apiKey: AGENT_TOKEN });

    await agent.chat.completions.create(
      { model: MODEL, messages: MESSAGES },
      { headers: { "x-platform-assertion": assertion } },
    );
    await agent.chat.completions.create({ model: MODEL, messages: MESSAGES });

    expect(gateway.usage.map(({ tenant, agent }) => [tenant, agent])).to.deep.equal([
      ["globex", "assistant"],
      ["owner", "assistant"],
    ]);
    expect(gateway.requests()[0]).to.include({ tenant: "globex", graph_id: "assistant" });
  });

  it("refuses an agent's token with the assertion of a run of another agent, and a forged one", async () => {
    const signer = await createAssertionSigner(gateway.assertionPrivateKey);
    const other = await signer.sign({ tenant: "globex", subject: "kim" }, "other");
    const ask = (assertion: string) =>
      fetch(`${gateway.url}/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${AGENT_TOKEN}`,
          "x-platform-assertion": assertion,
        },
        body: JSON.stringify({ model: MODEL, messages: MESSAGES }),
      });

    expect((await ask(other)).status).to.equal(403);
    expect((await ask(`${other.slice(0, -4)}AAAA`)).status).to.equal(401);
    expect(provider.calls).to.have.length(0);
  });

  it("knows whom a run is for a year after it was asked for, and not for ever", async () => {
    const key = await importPKCS8(gateway.assertionPrivateKey, "EdDSA");
    const ask = async (ageDays: number) => {
      const issued = Math.floor(Date.now() / 1000) - ageDays * 24 * 3_600;
      const assertion = await new SignJWT({ tenant: "globex" })
        .setProtectedHeader({ alg: "EdDSA" })
        .setIssuer("platform-gateway")
        .setSubject("kim")
        .setAudience("assistant")
        .setIssuedAt(issued)
        .setExpirationTime(issued + 60)
        .sign(key);
      return fetch(`${gateway.url}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${AGENT_TOKEN}`, "x-platform-assertion": assertion },
        body: JSON.stringify({ model: MODEL, messages: MESSAGES }),
      });
    };

    expect((await ask(365)).status).to.equal(200);
    expect(gateway.usage[0]).to.include({ tenant: "globex", agent: "assistant" });
    const tooOld = await ask(367);
    expect(tooOld.status).to.equal(401);
    expect(await tooOld.text()).to.contain("Start a new run");
    expect(provider.calls).to.have.length(1);
  });

  it("sends no header of the client to the provider, and none of the provider's own to the client", async () => {
    provider.next(
      answers(chatCompletion("gpt-4o-mini"), {
        headers: {
          "set-cookie": "session=1",
          "x-ratelimit-limit-requests": "500",
          "openai-organization": "the-operator",
          "openai-processing-ms": PROVIDER_KEY,
          "x-request-id": "req_theirs",
          server: "theirs",
        },
      }),
    );

    const response = await fetch(`${gateway.url}/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${CONSUMER_TOKEN}`,
        cookie: "secret=1",
        "x-platform-tenant": "forged",
        "x-api-key": "client-key",
        "x-request-id": "ours-1",
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      },
      body: JSON.stringify({ model: MODEL, messages: MESSAGES }),
    });

    const { host, connection, ...sent } = provider.calls[0]?.headers ?? {};
    expect(sent).to.deep.equal({
      authorization: `Bearer ${PROVIDER_KEY}`,
      accept: "application/json, text/event-stream",
      "accept-encoding": "identity",
      "content-length": sent["content-length"],
      "content-type": "application/json",
      "user-agent": "platform-model-gateway",
    });
    const received = Object.fromEntries(response.headers);
    expect(received).to.have.keys(
      "connection",
      "content-length",
      "content-type",
      "date",
      "keep-alive",
      "x-provider-request-id",
      "x-request-id",
    );
    expect(received["x-request-id"]).to.equal("ours-1");
    expect(received["x-provider-request-id"]).to.equal("req_theirs");
  });

  describe("the trace that a call's headers name", () => {
    const TRACE = "0af7651916cd43dd8448eb211c80319c";
    let undo: () => void;

    before(() => {
      undo = carryTraces();
    });
    after(() => undo());

    /** The span that an agent's call leaves. */
    async function spanOf(headers: Record<string, string>) {
      await fetch(`${gateway.url}/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${AGENT_TOKEN}`,
          traceparent: `00-${TRACE}-b7ad6b7169203331-01`,
          ...headers,
        },
        body: JSON.stringify({ model: MODEL, messages: MESSAGES }),
      });
      await eventually("the span has ended", () => gateway.spans().length === 1);
      return gateway.spans()[0];
    }

    it("goes on for a run's assertion", async () => {
      const signer = await createAssertionSigner(gateway.assertionPrivateKey);
      const assertion = await signer.sign({ tenant: "globex", subject: "kim" }, "assistant");
      const span = await spanOf({ "x-platform-assertion": assertion });
      expect(span?.spanContext().traceId).to.equal(TRACE);
      expect(span?.parentSpanContext?.spanId).to.equal("b7ad6b7169203331");
    });

    it("goes on for the front door's proof", async () => {
      const signer = await createAssertionSigner(gateway.assertionPrivateKey);
      const span = await spanOf({ "x-platform-front-door": await signer.signFrontDoor() });
      expect(span?.spanContext().traceId).to.equal(TRACE);
    });

    const strangers: [string, (key: string) => Promise<Record<string, string>>][] = [
      ["a consumer token alone", async () => ({})],
      ["a made-up proof", async () => ({ "x-platform-front-door": "made.up.proof" })],
      [
        "an assertion in place of the proof",
        async (key) => {
          const signer = await createAssertionSigner(key);
          const identity = { tenant: "globex", subject: "kim" };
          return { "x-platform-front-door": await signer.sign(identity, "model-gateway") };
        },
      ],
      [
        "another platform's proof",
        async () => {
          const signer = await createAssertionSigner(generateAssertionKeys().privateKey);
          return { "x-platform-front-door": await signer.signFrontDoor() };
        },
      ],
    ];
    for (const [what, headersFor] of strangers) {
      it(`is only linked for ${what}`, async () => {
        const span = await spanOf(await headersFor(gateway.assertionPrivateKey));
        expect(span?.spanContext().traceId).not.to.equal(TRACE);
        expect(span?.links.map(({ context }) => context.traceId)).to.deep.equal([TRACE]);
        expect(span?.attributes["platform.caller.trace_id"]).to.equal(TRACE);
      });
    }

    it("is no identity: the front door's proof passes for no run's assertion", async () => {
      const signer = await createAssertionSigner(gateway.assertionPrivateKey);
      const answer = await fetch(`${gateway.url}/models`, {
        headers: {
          authorization: `Bearer ${AGENT_TOKEN}`,
          "x-platform-assertion": await signer.signFrontDoor(),
        },
      });
      expect(answer.status).to.equal(401);
    });
  });

  it("leaves a span with what was asked, what came and what it cost, and no secret", async () => {
    await client.chat.completions.create({ model: MODEL, messages: MESSAGES });
    const stream = await client.chat.completions.create({
      model: MODEL,
      messages: MESSAGES,
      stream: true,
    });
    await collect(stream);

    const spans = gateway.spans();
    expect(spans).to.have.length(2);
    for (const { attributes } of spans) {
      expect(attributes).to.include({
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o-mini",
        "llm.provider": "openai",
        "llm.token_count.prompt": 11,
        "llm.token_count.completion": 7,
        "llm.token_count.total": 18,
        "output.value": STAND_IN_TEXT,
        "platform.tenant": "acme",
      });
      expect(attributes["input.value"]).to.contain("Hello");
    }
    const everything = JSON.stringify(spans.map(({ attributes }) => attributes)) + gateway.logs;
    expect(everything).not.to.contain(PROVIDER_KEY);
    expect(everything).not.to.contain(CONSUMER_TOKEN);
  });
});
