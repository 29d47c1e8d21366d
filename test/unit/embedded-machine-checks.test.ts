import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { expect } from "chai";
import { UserError } from "../../runtime/common/errors.ts";
import { freePort } from "../../runtime/embedded/free-port.ts";
import { checkPortFree } from "../../runtime/embedded/machine-checks.ts";
import { findPortHolder } from "../../runtime/embedded/port-holder.ts";

describe("the check of the port", () => {
  let server: Server | undefined;

  afterEach(async () => {
    server?.close();
    server = undefined;
  });

  const listenOn = async (address: string): Promise<number> => {
    server = createServer().listen(0, address);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  };

  it("lets a free port pass", async () => {
    await checkPortFree(await freePort());
  });

  for (const address of ["127.0.0.1", "0.0.0.0", "::"]) {
    it(`names the process and the command that listen on ${address}`, async () => {
      const port = await listenOn(address);

      const error = await checkPortFree(port).catch((reason) => reason);

      expect(error).to.be.instanceOf(UserError);
      expect(error.message).to.include(`Port ${port} is taken by process ${process.pid}`);
      expect(error.message).to.include("mocha");
      expect(error.hint).to.include("--port");
    });
  }

  it("knows nobody for a port that nobody listens on", async () => {
    expect(await findPortHolder(await freePort())).to.equal(undefined);
  });
});
