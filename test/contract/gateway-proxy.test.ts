import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, type RequestListener, request } from "node:http";
import { expect } from "chai";
import { createProxy } from "../../runtime/gateway/proxy/proxy.ts";
import {
  CALL_HEADERS,
  gatewayDeps,
  type Listening,
  recordingLogger,
  startGateway,
  startUpstream,
  until,
} from "../support/gateway.ts";

const LIMIT_BYTES = 1024 * 1024;

describe("what goes through the gateway", () => {
  let handler: RequestListener;
  let worker: Listening;
  let gateway: Listening;
  const { logger, log } = recordingLogger();

  before(async () => {
    worker = await startUpstream((incoming, outgoing) => handler(incoming, outgoing));
    gateway = await startGateway(await gatewayDeps({ worker: worker.url, logger }));
  });
  after(async () => {
    await gateway.stop();
    await worker.stop();
  });

  function send(method: string, path: string, headers: Record<string, string> = {}) {
    return request(new URL(path, gateway.url), {
      method,
      headers: { ...CALL_HEADERS, host: "agents.localhost", ...headers },
      agent: false,
    });
  }

  async function answerOf(call: ClientRequest): Promise<IncomingMessage> {
    const [answer] = await once(call, "response");
    return answer;
  }

  async function textOf(answer: IncomingMessage): Promise<string> {
    let text = "";
    for await (const chunk of answer.setEncoding("utf8")) text += chunk;
    return text;
  }

  it("an event reaches the client while the worker is still writing", async () => {
    const gate = Promise.withResolvers<void>();
    handler = async (_, outgoing) => {
      outgoing.writeHead(200, { "content-type": "text/event-stream" });
      outgoing.write("data: 1\n\n");
      await gate.promise;
      outgoing.end("data: 2\n\n");
    };
    const call = send("GET", "/runs/stream").end();
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
    const answer = await answerOf(send("POST", "/runs/wait").end());
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
    const call = send("POST", "/runs");
    call.write("begin");
    expect(await first.promise).to.equal("begin");
    call.end("end");
    expect(await textOf(await answerOf(call))).to.equal("done");
  });

  it("large bodies arrive whole, in both directions", async () => {
    const body = Buffer.alloc(LIMIT_BYTES - 1, "0123456789");
    handler = (incoming, outgoing) => incoming.pipe(outgoing);
    const announced: Record<string, string> = { "content-length": String(body.length) };
    for (const headers of [announced, {}]) {
      const call = send("POST", "/echo", headers);
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
    const announced = send("POST", "/runs", { "content-length": String(LIMIT_BYTES + 1) });
    announced.on("error", () => {}).flushHeaders();
    const refused = await answerOf(announced);
    expect(refused.statusCode).to.equal(413);
    expect(JSON.parse(await textOf(refused)).error).to.equal("payload_too_large");
    announced.destroy();

    const chunked = send("POST", "/runs");
    chunked.on("error", () => {}).write(Buffer.alloc(LIMIT_BYTES + 1));
    const counted = await answerOf(chunked);
    expect(counted.statusCode).to.equal(413);
    expect(JSON.parse(await textOf(counted)).error).to.equal("payload_too_large");
    chunked.destroy();
  });

  it("a client that leaves within a stream ends the worker's call", async () => {
    const closed = Promise.withResolvers<void>();
    handler = (incoming, outgoing) => {
      outgoing.writeHead(200).write("first");
      incoming.socket.once("close", () => closed.resolve());
    };
    const call = send("GET", "/runs/stream", { "x-request-id": "left-1" }).end();
    await once(await answerOf(call), "data");
    call.destroy();
    await closed.promise;
    await until(() => log.lines.some((line) => line.request_id === "left-1"));
    const lines = log.lines.filter((line) => line.request_id === "left-1");
    expect(lines, JSON.stringify(lines)).to.have.length(1);
    expect(lines[0]).to.include({ status: 499 });
  });

  it("a client that leaves before any answer ends the worker's call", async () => {
    const asked = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    handler = (incoming) => {
      incoming.resume();
      incoming.socket.once("close", () => closed.resolve());
      asked.resolve();
    };
    const call = send("POST", "/runs/wait");
    call.on("error", () => {}).end("{}");
    await asked.promise;
    call.destroy();
    await closed.promise;
  });

  it("a worker that dies within a stream cuts the client's connection", async () => {
    for (const headers of [{}, { "content-length": "100" }] as const) {
      const dying = Promise.withResolvers<() => void>();
      handler = (incoming, outgoing) => {
        outgoing.writeHead(200, headers).write("first");
        dying.resolve(() => incoming.socket.destroy());
      };
      const answer = await answerOf(send("GET", "/runs/stream").end());
      await once(answer, "data");
      const broken = new Promise((resolve) => answer.once("close", resolve));
      answer.on("error", () => {}).resume();
      (await dying.promise)();
      await broken;
      expect(answer.complete).to.equal(false);
    }
    await until(() => log.lines.some((line) => line.msg === "upstream broke off"));
  });

  it("a worker that hangs up without an answer is a 502, and a POST is not sent twice", async () => {
    let calls = 0;
    handler = (incoming) => {
      calls += 1;
      incoming.socket.destroy();
    };
    const call = send("POST", "/runs/wait");
    call.end("{}");
    const answer = await answerOf(call);
    expect(answer.statusCode).to.equal(502);
    expect(answer.headers["retry-after"]).to.equal("1");
    const body = JSON.parse(await textOf(answer));
    expect(body.error).to.equal("bad_gateway");
    expect(body.message).to.contain("worker does not answer");
    expect(calls).to.equal(1);
  });

  it("a GET that got no answer is asked once more", async () => {
    let calls = 0;
    handler = (incoming, outgoing) => {
      calls += 1;
      if (calls === 1) incoming.socket.destroy();
      else outgoing.end("second");
    };
    const answer = await answerOf(send("GET", "/threads/t").end());
    expect(await textOf(answer)).to.equal("second");
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
    const answer = await answerOf(send("GET", "/large").end());
    answer.pause();
    await stuck.promise;
    await until(() => settled(() => written));
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
    const answer = await answerOf(send("POST", "/threads", { "x-request-id": "ours" }).end());
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
    const head = await answerOf(send("HEAD", "/200").end());
    expect(head.statusCode).to.equal(200);
    expect(head.headers).to.include({ "content-length": "5", "x-a": "1" });
    expect(await textOf(head)).to.equal("");
    for (const status of [204, 304]) {
      const answer = await answerOf(send("GET", `/${status}`).end());
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
    const call = send("GET", "/info", { connection: "x-hop", "x-hop": "1", te: "trailers" });
    call.setHeader("x-many", ["1", "2"]);
    await textOf(await answerOf(call.end()));
    const names = (await seen.promise).filter((_, index) => index % 2 === 0);
    expect(names.filter((name) => name.toLowerCase() === "x-many")).to.have.length(2);
    expect(names.map((name) => name.toLowerCase())).not.to.include.members(["x-hop"]);
    expect(names.map((name) => name.toLowerCase())).not.to.include.members(["te"]);
  });

  it("a worker that is being restarted is waited for a moment", async () => {
    const first = await startUpstream((_, outgoing) => outgoing.end());
    await first.stop();
    const port = Number(first.url.port);
    let second: Listening | undefined;
    const proxy = createProxy({
      bodyLimitBytes: LIMIT_BYTES,
      retryPause: async () => {
        second = await startUpstream((incoming, outgoing) => incoming.pipe(outgoing), port);
      },
    });
    const door = await startGateway(await gatewayDeps({ worker: first.url, proxy }));
    const call = request(new URL("/runs/wait", door.url), {
      method: "POST",
      headers: { ...CALL_HEADERS, host: "agents.localhost" },
      agent: false,
    });
    call.end('{"whole":true}');
    const answer = await answerOf(call);
    expect(await textOf(answer)).to.equal('{"whole":true}');
    await door.stop();
    await second?.stop();
  });

  it("a worker that stays away is a 502; a model gateway that does, one in OpenAI's shape", async () => {
    const door = await startGateway(await gatewayDeps());
    const ask = async (host: string, path: string) => {
      const call = request(new URL(path, door.url), {
        headers: { ...CALL_HEADERS, host },
        agent: false,
      });
      const answer = await answerOf(call.end());
      return { status: answer.statusCode, body: JSON.parse(await textOf(answer)) };
    };
    const agent = await ask("agents.localhost", "/info");
    expect(agent.status).to.equal(502);
    expect(agent.body.error).to.equal("bad_gateway");
    const model = await ask("localhost", "/v1/models");
    expect(model.status).to.equal(502);
    expect(model.body.error).to.include({ code: "bad_gateway", type: "api_error", param: null });
    await door.stop();
  });
});

/** True once a figure stays the same over a hundred turns of the event loop. */
async function settled(figure: () => number): Promise<boolean> {
  const before = figure();
  for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
  return figure() === before;
}
