import { once } from "node:events";
import type { RequestListener } from "node:http";
import { expect } from "chai";
import { createProxy } from "../../runtime/gateway/proxy/proxy.ts";
import { eventually } from "../support/eventually.ts";
import {
  gatewayDeps,
  type Listening,
  recordingLogger,
  startGateway,
  startUpstream,
} from "../support/gateway.ts";
import { answerOf, send, textOf } from "../support/raw-http.ts";

const LIMIT_BYTES = 1024 * 1024;

describe("calls through the gateway that fail", () => {
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

  it("a client that leaves within a stream ends the worker's call", async () => {
    const closed = Promise.withResolvers<void>();
    handler = (incoming, outgoing) => {
      outgoing.writeHead(200).write("first");
      incoming.socket.once("close", () => closed.resolve());
    };
    const call = send(gateway.url, "GET", "/runs/stream", { "x-request-id": "left-1" }).end();
    await once(await answerOf(call), "data");
    call.destroy();
    await closed.promise;
    await eventually("it is logged", () => log.lines.some((line) => line.request_id === "left-1"));
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
    const call = send(gateway.url, "POST", "/runs/wait");
    call.on("error", () => {}).end("{}");
    await asked.promise;
    call.destroy();
    await closed.promise;
  });

  it("a client that takes nothing of a stream is dropped in time, and ends the worker's call", async () => {
    const closed = Promise.withResolvers<void>();
    handler = (incoming, outgoing) => {
      const fill = () => {
        while (outgoing.write(Buffer.alloc(65_536)));
      };
      outgoing.on("drain", fill);
      incoming.socket.once("close", () => closed.resolve());
      fill();
    };
    const proxy = createProxy({ bodyLimitBytes: LIMIT_BYTES, stallMs: 50 });
    const door = await startGateway(await gatewayDeps({ worker: worker.url, proxy }));
    const answer = await answerOf(send(door.url, "GET", "/runs/stream").end());
    await closed.promise;
    const cut = new Promise((resolve) => answer.once("close", resolve));
    answer.on("error", () => {}).resume();
    await cut;
    expect(answer.complete).to.equal(false);
    await door.stop();
  });

  it("a worker that dies within a stream cuts the client's connection", async () => {
    for (const headers of [{}, { "content-length": "100" }] as const) {
      const dying = Promise.withResolvers<() => void>();
      handler = (incoming, outgoing) => {
        outgoing.writeHead(200, headers).write("first");
        dying.resolve(() => incoming.socket.destroy());
      };
      const answer = await answerOf(send(gateway.url, "GET", "/runs/stream").end());
      await once(answer, "data");
      const broken = new Promise((resolve) => answer.once("close", resolve));
      answer.on("error", () => {}).resume();
      (await dying.promise)();
      await broken;
      expect(answer.complete).to.equal(false);
    }
    await eventually("it is logged", () =>
      log.lines.some((line) => line.msg === "upstream broke off"),
    );
  });

  it("a worker that hangs up without an answer is a 502, and a POST is not sent twice", async () => {
    let calls = 0;
    handler = (incoming) => {
      calls += 1;
      incoming.socket.destroy();
    };
    const call = send(gateway.url, "POST", "/runs/wait");
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
    const answer = await answerOf(send(gateway.url, "GET", "/threads/t").end());
    expect(await textOf(answer)).to.equal("second");
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
    const call = send(door.url, "POST", "/runs/wait");
    call.end('{"whole":true}');
    const answer = await answerOf(call);
    expect(await textOf(answer)).to.equal('{"whole":true}');
    await door.stop();
    await second?.stop();
  });

  it("a worker that stays away is a 502; a model gateway that does, one in OpenAI's shape", async () => {
    const door = await startGateway(await gatewayDeps());
    const ask = async (host: string, path: string) => {
      const answer = await answerOf(send(door.url, "GET", path, { host }).end());
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
