import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect } from "chai";
import { HttpError } from "../../runtime/common/errors.ts";
import { RequestBody } from "../../runtime/gateway/proxy/request-body.ts";

function bodyOf(limitBytes: number) {
  const client = new PassThrough({ highWaterMark: 1024 });
  return { client, body: new RequestBody(client as unknown as IncomingMessage, limitBytes) };
}

describe("a client's body on its way", () => {
  it("passes on whole", async () => {
    const { client, body } = bodyOf(10);
    client.end("0123456789");
    expect((await buffer(body)).toString()).to.equal("0123456789");
  });

  it("is left untouched until it is wanted, so that it can be sent again", async () => {
    const { client, body } = bodyOf(10);
    client.end("again");
    body.destroy();
    expect(body.started).to.equal(false);
    const second = new RequestBody(client as unknown as IncomingMessage, 10);
    expect((await buffer(second)).toString()).to.equal("again");
  });

  it("fails as too large with the first byte past the limit, and spares the client's side", async () => {
    const { client, body } = bodyOf(4);
    client.write("0123");
    client.write("4");
    const error = await buffer(body).catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(HttpError).and.to.include({ status: 413 });
    expect(client.destroyed).to.equal(false);
  });

  it("an upstream that does not read stops the client", async () => {
    const { client, body } = bodyOf(Number.MAX_SAFE_INTEGER);
    body.once("readable", () => {});
    const chunk = Buffer.alloc(1024);
    let accepted = 0;
    while (client.write(chunk) && accepted < 10_000) {
      accepted += 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(accepted).to.be.lessThan(1_000);
    body.destroy();
  });

  it("fails where the client goes away half-way", async () => {
    const { client, body } = bodyOf(100);
    client.write("half");
    body.once("data", () => client.destroy());
    const error = await buffer(body).catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(Error).and.not.to.be.instanceOf(HttpError);
  });
});
