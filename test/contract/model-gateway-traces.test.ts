import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { expect } from "chai";
import {
  CONSUMER_TOKEN,
  startModelGateway,
  type TestModelGateway,
} from "../support/model-gateway.ts";

describe("an agent's spans", () => {
  let gateway: TestModelGateway;
  const received: { headers: IncomingHttpHeaders; body: string; url: string }[] = [];
  const collector = createServer(async (request, response) => {
    const body = (await buffer(request)).toString();
    received.push({ headers: request.headers, body, url: request.url ?? "" });
    response.setHeader("set-cookie", "collector=secret").end("accepted");
  });

  before(async () => {
    await once(collector.listen(0, "127.0.0.1"), "listening");
    const { port } = collector.address() as AddressInfo;
    gateway = await startModelGateway(
      {},
      {
        collector: {
          endpoint: `http://127.0.0.1:${port}`,
          headers: "authorization=Bearer%20collector-key",
        },
      },
    );
  });

  after(async () => {
    await gateway.stop();
    collector.close();
  });

  const post = (token: string | undefined) =>
    fetch(`${gateway.origin}/otlp/v1/traces`, {
      method: "POST",
      headers: {
        "content-type": "application/x-protobuf",
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      body: "spans",
    });

  it("reach the collector with the platform's key, not with the agent's token", async () => {
    const answer = await post(CONSUMER_TOKEN);
    expect(answer.status).to.equal(200);
    expect(received).to.have.length(1);
    expect(received[0]?.url).to.equal("/v1/traces");
    expect(received[0]?.body).to.equal("spans");
    expect(received[0]?.headers.authorization).to.equal("Bearer collector-key");
    expect(received[0]?.headers["content-type"]).to.equal("application/x-protobuf");
  });

  it("are taken from nobody without a consumer token", async () => {
    expect((await post(undefined)).status).to.equal(401);
    expect((await post("guessed")).status).to.equal(401);
    expect(received).to.have.length(1);
  });

  it("bring nothing back of what the collector says", async () => {
    const answer = await post(CONSUMER_TOKEN);
    expect(await answer.text()).to.equal("");
    expect(answer.headers.get("set-cookie")).to.equal(null);
  });
});
