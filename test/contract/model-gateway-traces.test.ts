import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { traceCollector } from "../../runtime/model-gateway/trace-relay.ts";
import {
  CONSUMER_TOKEN,
  startModelGateway,
  type TestModelGateway,
} from "../support/model-gateway.ts";
import { readSpans, sendSpans } from "../support/otlp.ts";

const AGENT_TOKEN = "agent-token";
const LIMIT_BYTES = 4 * 1024 * 1024;

describe("an agent's spans", () => {
  let gateway: TestModelGateway;
  let received: { headers: IncomingHttpHeaders; body: Buffer; url: string }[] = [];
  let answer: (response: ServerResponse) => void;
  const collector = createServer(async (request, response) => {
    const body = await buffer(request);
    received.push({ headers: request.headers, body, url: request.url ?? "" });
    answer(response);
  });

  before(async () => {
    await once(collector.listen(0, "127.0.0.1"), "listening");
    const { port } = collector.address() as AddressInfo;
    gateway = await startModelGateway(
      {},
      {
        tokens: { [AGENT_TOKEN]: { tenant: "owner", agent: "assistant" } },
        collector: traceCollector({
          OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}/`,
          OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20collector-key",
        }),
      },
    );
  });

  beforeEach(() => {
    received = [];
    answer = (response) => response.setHeader("set-cookie", "collector=secret").end("accepted");
  });

  after(async () => {
    await gateway.stop();
    collector.closeAllConnections();
    collector.close();
  });

  const post = (
    token: string | undefined,
    body: string | Buffer = "",
    headers: Record<string, string> = {},
  ) =>
    fetch(`${gateway.origin}/otlp/v1/traces`, {
      method: "POST",
      headers: {
        "content-type": "application/x-protobuf",
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...headers,
      },
      body: new Uint8Array(Buffer.from(body)),
    });

  const send = (...rest: [string, string[], Parameters<typeof sendSpans>[3]?]) =>
    sendSpans(`${gateway.origin}/otlp/v1/traces`, ...rest);

  it("reach the collector with the platform's key, not with the agent's token", async () => {
    await send(AGENT_TOKEN, ["think"], { span: { "input.value": "Hello" } });
    expect(received).to.have.length(1);
    expect(received[0]?.url).to.equal("/v1/traces");
    expect(received[0]?.headers.authorization).to.equal("Bearer collector-key");
    expect(received[0]?.headers["content-type"]).to.equal("application/x-protobuf");
    const [sent] = readSpans(received[0]?.body ?? Buffer.alloc(0));
    expect(sent?.spans[0]?.name).to.equal("think");
    expect(sent?.spans[0]?.attributes).to.deep.include(["input.value", "Hello"]);
  });

  it("say whose they are, whatever the agent claims", async () => {
    await send(AGENT_TOKEN, ["think"], {
      resource: {
        "service.name": "worker",
        "platform.tenant": "victim",
        "platform.graph_id": "victims-agent",
        "openinference.project.name": "Elsewhere",
      },
      span: { "platform.graph_id": "victims-agent", "platform.tenant": "acme" },
    });
    const [sent] = readSpans(received[0]?.body ?? Buffer.alloc(0));
    expect(sent?.resource).to.deep.include(["service.name", "worker"]);
    const ours = sent?.resource.filter(([key]) => /^(?:platform|openinference)\./.test(key));
    expect(ours).to.have.deep.members([
      ["openinference.project.name", "Platform"],
      ["platform.tenant", "owner"],
      ["platform.graph_id", "assistant"],
    ]);
    // A worker serves many tenants: whom a run was for is in its span.
    expect(sent?.spans[0]?.attributes).to.have.deep.members([
      ["platform.graph_id", "assistant"],
      ["platform.tenant", "acme"],
    ]);
  });

  it("of a token of no agent in particular name the graph that they claim", async () => {
    await send(CONSUMER_TOKEN, ["think"], { span: { "platform.graph_id": "mine" } });
    const [sent] = readSpans(received[0]?.body ?? Buffer.alloc(0));
    expect(sent?.spans[0]?.attributes).to.deep.equal([["platform.graph_id", "mine"]]);
    expect(sent?.resource).to.deep.include(["platform.tenant", "acme"]);
  });

  it("are taken from nobody without a consumer token", async () => {
    expect((await post(undefined)).status).to.equal(401);
    expect((await post("guessed")).status).to.equal(401);
    expect(received).to.have.length(0);
  });

  it("go where the variables of traces say, if those of all signals say something else", () => {
    const all = {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://all",
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=all,x-a=1",
    };
    const ofTraces = {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://traces/in",
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: "authorization=traces",
    };
    expect(traceCollector({ ...all, ...ofTraces })).to.deep.equal({
      url: "http://traces/in",
      headers: { authorization: "traces", "x-a": "1" },
    });
    const malformed = { ...all, OTEL_EXPORTER_OTLP_HEADERS: "a=%zz,b=c%20d" };
    expect(traceCollector(malformed)?.headers).to.deep.equal({ b: "c d" });
    expect(traceCollector({ OTEL_EXPORTER_OTLP_HEADERS: "a=b" })).to.equal(undefined);
  });

  it("bring nothing back of what the collector says", async () => {
    const relayed = await post(CONSUMER_TOKEN);
    expect(relayed.status).to.equal(200);
    expect(await relayed.text()).to.equal("");
    expect(relayed.headers.get("set-cookie")).to.equal(null);
  });

  it("follow no redirect, which would take the platform's key along", async () => {
    answer = (response) => response.writeHead(307, { location: "/elsewhere" }).end();
    expect((await post(CONSUMER_TOKEN)).status).to.equal(503);
    expect(received.map(({ url }) => url)).to.deep.equal(["/v1/traces"]);
  });

  it("may come packed, but not past the limit once unpacked", async () => {
    const headers = { "content-encoding": "gzip" };
    expect((await post(CONSUMER_TOKEN, gzipSync(""), headers)).status).to.equal(200);
    expect(received[0]?.headers).not.to.have.property("content-encoding");
    const bomb = gzipSync(Buffer.alloc(LIMIT_BYTES + 1));
    expect((await post(CONSUMER_TOKEN, bomb, headers)).status).to.equal(413);
    expect((await post(CONSUMER_TOKEN, Buffer.alloc(LIMIT_BYTES + 1))).status).to.equal(413);
    expect(received).to.have.length(1);
  });

  it("that can't be read are refused and go nowhere", async () => {
    const refused: [number, string | Buffer, Record<string, string>][] = [
      [400, "spans", {}],
      [400, Buffer.from([0x0a, 0x7f, 0x00]), {}],
      [400, Buffer.alloc(100, 0xff), {}],
      // Field 1 to a reader that cuts tags to 32 bits.
      [400, Buffer.from([0x8a, 0x80, 0x80, 0x80, 0x10, 0x00]), {}],
      // Two million fields of nothing.
      [400, Buffer.alloc(LIMIT_BYTES - 2, Buffer.from([0x0a, 0x00])), {}],
      [400, "no gzip", { "content-encoding": "gzip" }],
      [415, "x", { "content-encoding": "br" }],
      [415, "{}", { "content-type": "application/json" }],
    ];
    for (const [status, body, headers] of refused) {
      expect(
        (await post(CONSUMER_TOKEN, body, headers)).status,
        String(body).slice(0, 20),
      ).to.equal(status);
    }
    expect(received).to.have.length(0);
  });
});
