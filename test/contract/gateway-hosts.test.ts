import { expect } from "chai";
import { createAssertionVerifier } from "../../runtime/common/identity.ts";
import { type FrontDoor, openFrontDoor } from "../support/front-door.ts";
import { ASSERTION_PUBLIC_KEY, CALL_HEADERS, GRAPH_ID } from "../support/gateway.ts";
import { getWith } from "../support/raw-http.ts";

describe("the gateway's host names and probes", () => {
  let door: FrontDoor;
  let call: FrontDoor["call"];

  before(async () => {
    door = await openFrontDoor();
    call = door.call;
  });
  after(() => door.stop());

  describe("host names", () => {
    it("a host that isn't ours is a 421 that names the right ones", async () => {
      for (const host of ["evil.example", "agents.localhost.evil.example", "127.0.0.1.nip.io"]) {
        const { status, body } = await call("/info", { ...CALL_HEADERS, host });
        expect(status, host).to.equal(421);
        expect(body.message).to.contain("agents.localhost").and.contain("ai-gateway.localhost");
      }
    });

    it("two in one request are a 400, even if they are the same", async () => {
      const token = ["authorization", CALL_HEADERS.authorization, "x-graph-id", GRAPH_ID];
      for (const second of ["agents.localhost", "ai-gateway.localhost"]) {
        const headers = [...token, "Host", "agents.localhost", "hOST", second];
        const { status, body } = await getWith(door.url, "/info", headers);
        expect(status, second).to.equal(400);
        expect(body).to.include({ error: "bad_request" });
      }
    });

    it("case and port do not matter", async () => {
      const { status } = await call("/info", { ...CALL_HEADERS, host: "AGENTS.LocalHost:1234" });
      expect(status).to.equal(200);
    });

    it("the machine itself has all doors, told apart by path", async () => {
      for (const host of ["localhost:8088", "127.0.0.1", "[::1]:8088"]) {
        const at = (path: string) => call(path, { ...CALL_HEADERS, host });
        expect((await at("/info")).body.url, host).to.equal("/info");
        expect((await at("/v1/models")).body.models, host).to.equal(true);
        expect((await at("/")).body, host).to.contain("<!doctype html>");
        expect((await at("/traces")).status, host).to.equal(303);
        expect((await at("/assets/console.css")).headers["content-type"]).to.contain("text/css");
      }
    });

    it("the model gateway's host passes every path on, with the consumer token only", async () => {
      const { body } = await call("/v1/models", {
        host: "ai-gateway.localhost",
        authorization: "Bearer consumer",
        cookie: "a=b",
        "x-platform-assertion": "forged",
      });
      expect(body.headers.authorization).to.equal("Bearer consumer");
      expect(body.headers).not.to.have.any.keys("cookie", "x-platform-assertion");
    });

    it("the model gateway alone gets the front door's proof, which no client can bring", async () => {
      const proof = { "x-platform-front-door": "forged" };
      const models = await call("/v1/models", { host: "localhost", ...proof });
      const agent = await call("/info", { ...CALL_HEADERS, ...proof });
      const verifier = await createAssertionVerifier(ASSERTION_PUBLIC_KEY);
      expect(await verifier.isFrontDoor(models.body.headers["x-platform-front-door"])).to.equal(
        true,
      );
      expect(await verifier.isFrontDoor("forged")).to.equal(false);
      expect(agent.body.headers).not.to.have.property("x-platform-front-door");
    });

    it("the tool gateway's host says that it is not installed", async () => {
      const { status, body } = await call("/mcp", { host: "mcp.localhost" }, "POST");
      expect(status).to.equal(503);
      expect(body.error).to.equal("not_installed");
    });

    it("a path that climbs out of one door does not come in by another", async () => {
      const { body } = await call("/v1/../info", { ...CALL_HEADERS, host: "localhost" });
      expect(body.url).to.equal("/info");
    });
  });

  describe("probes", () => {
    it("need no token and no known host", async () => {
      for (const path of ["/live", "/ready", "/health"]) {
        expect((await call(path, { host: "10.0.0.7:8088" })).status, path).to.equal(200);
      }
      expect((await call("/ok")).body).to.deep.equal({ ok: true });
    });

    it("/ready is a 503 while the gateway stops", async () => {
      door.readiness.state = "stopping";
      const { status } = await call("/ready");
      door.readiness.state = "ready";
      expect(status).to.equal(503);
    });
  });
});
