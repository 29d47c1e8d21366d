import { once } from "node:events";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { Duplex } from "node:stream";
import { expect } from "chai";
import type { Dispatcher } from "undici";
import { relayResponse } from "../../runtime/gateway/proxy/response-relay.ts";

/** A client's connection, which takes nothing unless it is told to read. */
class Connection extends Duplex {
  reads = false;
  override _read() {}
  override _write(_: Buffer, __: string, taken: () => void) {
    if (this.reads) setTimeout(taken, 5);
  }
}

function setUp(stallMs: number) {
  const client = new Connection();
  const outgoing = new ServerResponse(new IncomingMessage(new Socket()));
  outgoing.assignSocket(client as unknown as Socket);
  // The server's part.
  client.on("drain", () => outgoing.emit("drain"));
  const upstream = { aborted: false, pause() {}, resume() {}, abort: () => {} };
  upstream.abort = () => {
    upstream.aborted = true;
  };
  const controller = upstream as unknown as Dispatcher.DispatchController;
  const call = { destination: "worker", upstream: new URL("http://worker"), stallMs } as const;
  const relay = relayResponse({ ...call, outgoing, responseHeaders: {} });
  relay.handler.onRequestStart?.(controller, {});
  relay.handler.onResponseStart?.(controller, 200, {});
  return { client, upstream, controller, outgoing, ...relay };
}

describe("the relay of an answer", () => {
  it("drops a client that never takes the end of an answer", async () => {
    const { handler, controller, outcome, client } = setUp(20);
    handler.onResponseData?.(controller, Buffer.from("small"));
    handler.onResponseEnd?.(controller, {});
    expect(await outcome).to.deep.equal({ kind: "client-gone" });
    expect(client.destroyed).to.equal(true);
  });

  it("begins to wait anew whenever the client has taken what there was", async () => {
    const { handler, controller, outcome, client, outgoing, upstream } = setUp(200);
    client.reads = true;
    for (const end = performance.now() + 300; performance.now() < end; ) {
      const drained = once(outgoing, "drain");
      handler.onResponseData?.(controller, Buffer.alloc(65_536));
      await drained;
    }
    expect(client.destroyed).to.equal(false);
    client.reads = false;
    handler.onResponseData?.(controller, Buffer.alloc(65_536));
    expect(await outcome).to.deep.equal({ kind: "client-gone" });
    expect(upstream.aborted).to.equal(true);
  });
});
