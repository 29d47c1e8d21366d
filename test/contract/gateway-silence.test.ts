import { once } from "node:events";
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
import { type QuietWorker, startQuietWorker } from "../support/quiet-worker.ts";
import { answerOf, send, textOf } from "../support/raw-http.ts";

const silence = { silentMs: 50, probeMs: 600, strikes: 3 };

describe("a worker that falls silent", () => {
  let worker: QuietWorker;
  let gateway: Listening;
  const { logger, log } = recordingLogger();

  beforeEach(async () => {
    worker = await startQuietWorker();
    const proxy = createProxy({ bodyLimitBytes: 1024, silence });
    gateway = await startGateway(await gatewayDeps({ worker: worker.url, proxy, logger }));
  });
  afterEach(async () => {
    await gateway.stop();
    await worker.stop();
  });

  it("before it answered, with its machine gone, is a 502 that says when to come back", async () => {
    worker.freeze();
    const answer = await answerOf(send(gateway.url, "POST", "/runs/wait").end("{}"));
    expect(answer.statusCode).to.equal(502);
    expect(answer.headers["retry-after"]).to.equal("1");
    expect(JSON.parse(await textOf(answer)).message).to.contain("worker does not answer");
  });

  it("within a stream, with its machine gone, cuts the client's connection", async () => {
    const answer = await answerOf(send(gateway.url, "GET", "/runs/stream").end());
    await once(answer, "data");
    worker.freeze();
    const closed = new Promise((resolve) => answer.once("close", resolve));
    answer.on("error", () => {}).resume();
    await closed;
    expect(answer.complete).to.equal(false);
    await eventually("it is logged", () =>
      log.lines.some((line) => String(line.error).includes("fell silent")),
    );
  });

  it("but answers /live is waited for as long as it takes", async () => {
    const answer = await answerOf(send(gateway.url, "POST", "/runs/wait").end("{}"));
    expect(answer.statusCode).to.equal(200);
    expect(await textOf(answer)).to.equal("at last");
  });

  it("but knows no /live is alive all the same", async () => {
    let probes = 0;
    const calls: (() => void)[] = [];
    const foreign = await startUpstream(({ url }, response) => {
      if (url !== "/live") {
        calls.push(() => response.end("at last"));
        return;
      }
      response.writeHead(404).end();
      probes += 1;
      if (probes === 4) for (const answerCall of calls) answerCall();
    });
    const proxy = createProxy({ bodyLimitBytes: 1024, silence });
    const door = await startGateway(await gatewayDeps({ worker: foreign.url, proxy }));
    const answer = await answerOf(send(door.url, "GET", "/runs/wait").end());
    expect(await textOf(answer)).to.equal("at last");
    await door.stop();
    await foreign.stop();
  });
});
