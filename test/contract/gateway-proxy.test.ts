import type { RequestListener } from "node:http";
import { expect } from "chai";
import { Client } from "undici";
import { eventually } from "../support/eventually.ts";
import {
  CALL_HEADERS,
  gatewayDeps,
  type Listening,
  startGateway,
  startUpstream,
} from "../support/gateway.ts";
import { answerOf, send, textOf } from "../support/raw-http.ts";

const LIMIT_BYTES = 1024 * 1024;

describe("what goes through the gateway", () => {
  let handler: RequestListener;
  let worker: Listening;
  let gateway: Listening;

  before(async () => {
    worker = await startUpstream((incoming, outgoing) => handler(incoming, outgoing));
    gateway = await startGateway(await gatewayDeps({ worker: worker.url }));
  });
  after(async () => {
    await gateway.stop();
    await worker.stop();
  });

  it("an event reaches the client while the worker is still writing", async () => {
    const gate = Promise.withResolvers<void>();
    handler = async (_, outgoing) => {
      outgoing.writeHead(200, { "content-type": "text/event-stream" });
      outgoing.write("data: 1\n\n");
      await gate.promise;
      outgoing.end("data: 2\n\n");
    };
    const call = send(gateway.url, "GET", "/runs/stream").end();
    const answer = await answerOf(call);
    const events = answer.setEncoding("utf8")[Symbol.asyncIterator]();
    expect((await events.next()).value).to.equal("data: 1\n\n");
    gate.resolve();
    expect((await events.next()).value).to.equal("data: 2\n\n");
    expect((await events.next()).done).to.equal(true);
  });

  it("headers reach the client before there is a body", async () => {
    const gate = Promise.withResolvers<void>();
    handler = async (_, outgoing) => {
      outgoing.writeHead(200, { "content-location": "/threads/t/runs/r" }).flushHeaders();
      await gate.promise;
      outgoing.end("{}");
    };
    const answer = await answerOf(send(gateway.url, "POST", "/runs/wait").end());
    expect(answer.headers["content-location"]).to.equal("/threads/t/runs/r");
    gate.resolve();
    expect(await textOf(answer)).to.equal("{}");
  });

  it("a body reaches the worker while the client is still writing", async () => {
    const first = Promise.withResolvers<string>();
    handler = (incoming, outgoing) => {
      incoming.once("data", (chunk) => first.resolve(String(chunk)));
      incoming.on("end", () => outgoing.end("done"));
    };
    const call = send(gateway.url, "POST", "/runs");
    call.write("begin");
    expect(await first.promise).to.equal("begin");
    call.end("end");
    expect(await textOf(await answerOf(call))).to.equal("done");
  });

  it("bodies of all sizes arrive whole, one after the other on one connection", async () => {
    const sockets = new Set<unknown>();
    handler = (incoming, outgoing) => {
      incoming.pipe(outgoing);
    };
    const client = new Client(gateway.url.origin);
    client.on("connect", () => sockets.add({}));
    for (const length of [0, 1, 100, 16_384, 65_536, 200_000, 1]) {
      const body = "x".repeat(length);
      const answer = await client.request({
        method: "POST",
        path: "/echo",
        headers: { ...CALL_HEADERS, host: "agents.localhost" },
        body,
      });
      expect(await answer.body.text()).to.equal(body);
    }
    expect(sockets.size).to.equal(1);
    await client.close();
  });

  it("large bodies arrive whole, in both directions", async () => {
    const body = Buffer.alloc(LIMIT_BYTES - 1, "0123456789");
    handler = (incoming, outgoing) => incoming.pipe(outgoing);
    const announced: Record<string, string> = { "content-length": String(body.length) };
    for (const headers of [announced, {}]) {
      const call = send(gateway.url, "POST", "/echo", headers);
      call.end(body);
      const chunks: Buffer[] = [];
      for await (const chunk of await answerOf(call)) chunks.push(chunk);
      expect(Buffer.concat(chunks).equals(body)).to.equal(true);
    }
  });

  it("a body past the limit is a 413, announced or not", async () => {
    handler = (incoming, outgoing) => {
      incoming.resume().on("end", () => outgoing.end());
    };
    const announced = send(gateway.url, "POST", "/runs", {
      "content-length": String(LIMIT_BYTES + 1),
    });
    announced.on("error", () => {}).flushHeaders();
    const refused = await answerOf(announced);
    expect(refused.statusCode).to.equal(413);
    expect(JSON.parse(await textOf(refused)).error).to.equal("payload_too_large");
    announced.destroy();

    const chunked = send(gateway.url, "POST", "/runs");
    chunked.on("error", () => {}).write(Buffer.alloc(LIMIT_BYTES + 1));
    const counted = await answerOf(chunked);
    expect(counted.statusCode).to.equal(413);
    expect(JSON.parse(await textOf(counted)).error).to.equal("payload_too_large");
    chunked.destroy();
  });

  it("a slow client slows the worker down", async () => {
    const chunk = Buffer.alloc(64 * 1024);
    const stuck = Promise.withResolvers<void>();
    const TOTAL = 64 * 1024 * 1024;
    let written = 0;
    handler = (_, outgoing) => {
      const fill = () => {
        while (written < TOTAL) {
          written += chunk.length;
          if (!outgoing.write(chunk)) {
            outgoing.once("drain", fill);
            stuck.resolve();
            return;
          }
        }
        outgoing.end();
      };
      fill();
    };
    const answer = await answerOf(send(gateway.url, "GET", "/large").end());
    answer.pause();
    await stuck.promise;
    await eventually("the worker is stopped", () => settled(() => written));
    expect(written).to.be.lessThan(TOTAL / 2);
    let received = 0;
    for await (const part of answer) received += part.length;
    expect(received).to.equal(TOTAL);
  });

  it("answers keep status and headers, without those of the hop or the platform", async () => {
    handler = (_, outgoing) => {
      outgoing.writeHead(201, "Made", {
        location: "/threads/t",
        "x-custom": ["a", "b"],
        "set-cookie": "worker=1",
        server: "worker",
        "x-platform-secret": "1",
        "x-request-id": "theirs",
        connection: "x-hop, keep-alive",
        "x-hop": "1",
      });
      outgoing.end("{}");
    };
    const answer = await answerOf(
      send(gateway.url, "POST", "/threads", { "x-request-id": "ours" }).end(),
    );
    expect(answer.statusCode).to.equal(201);
    expect(answer.headers).to.include({
      location: "/threads/t",
      "x-custom": "a, b",
      "x-request-id": "ours",
    });
    expect(answer.headers).not.to.have.any.keys(
      "set-cookie",
      "server",
      "x-platform-secret",
      "x-hop",
    );
    await textOf(answer);
  });

  it("HEAD, 204 and 304 have no body", async () => {
    handler = (incoming, outgoing) => {
      const status = Number(incoming.url?.slice(1));
      outgoing.writeHead(status, status === 200 ? { "content-length": "5", "x-a": "1" } : {});
      outgoing.end(incoming.method === "HEAD" || status !== 200 ? undefined : "12345");
    };
    const head = await answerOf(send(gateway.url, "HEAD", "/200").end());
    expect(head.statusCode).to.equal(200);
    expect(head.headers).to.include({ "content-length": "5", "x-a": "1" });
    expect(await textOf(head)).to.equal("");
    for (const status of [204, 304]) {
      const answer = await answerOf(send(gateway.url, "GET", `/${status}`).end());
      expect(answer.statusCode).to.equal(status);
      expect(await textOf(answer)).to.equal("");
    }
  });

  it("headers named by Connection stay on their hop, repeated headers stay repeated", async () => {
    const seen = Promise.withResolvers<string[]>();
    handler = (incoming, outgoing) => {
      seen.resolve(incoming.rawHeaders);
      outgoing.end();
    };
    const call = send(gateway.url, "GET", "/info", {
      connection: "x-hop",
      "x-hop": "1",
      te: "trailers",
    });
    call.setHeader("x-many", ["1", "2"]);
    await textOf(await answerOf(call.end()));
    const names = (await seen.promise).filter((_, index) => index % 2 === 0);
    expect(names.filter((name) => name.toLowerCase() === "x-many")).to.have.length(2);
    expect(names.map((name) => name.toLowerCase())).not.to.include.members(["x-hop"]);
    expect(names.map((name) => name.toLowerCase())).not.to.include.members(["te"]);
  });
});

/** True once a figure stays the same over a hundred turns of the event loop. */
async function settled(figure: () => number): Promise<boolean> {
  const before = figure();
  for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
  return figure() === before;
}
