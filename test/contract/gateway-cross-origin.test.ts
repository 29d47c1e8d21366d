import { expect } from "chai";
import { request } from "undici";
import {
  CALL_HEADERS,
  gatewayDeps,
  type Listening,
  startGateway,
  startUpstream,
} from "../support/gateway.ts";

const STUDIO = "https://studio.example";
const STRANGER = "https://stranger.example";
const PREFLIGHT = {
  "access-control-request-method": "POST",
  "access-control-request-headers": "authorization,x-graph-id",
};

describe("pages of other origins", () => {
  let upstream: Listening;
  let gateway: Listening;

  before(async () => {
    upstream = await startUpstream((_, outgoing) => {
      // As langgraph-api says of itself.
      outgoing.setHeader("access-control-allow-origin", "*");
      outgoing.setHeader("content-location", "/threads/t/runs/r");
      outgoing.end("{}");
    });
    gateway = await startGateway(
      await gatewayDeps({
        worker: upstream.url,
        modelGateway: upstream.url,
        toolGateway: upstream.url,
        corsOrigins: [STUDIO, "http://localhost:3000"],
      }),
    );
  });
  after(async () => {
    await gateway.stop();
    await upstream.stop();
  });

  const call = async (
    method: "GET" | "HEAD" | "OPTIONS" | "POST",
    path: string,
    headers: Record<string, string>,
    base = gateway.url,
  ) => {
    const answer = await request(new URL(path, base), {
      method,
      headers: { host: "agents.localhost", ...headers },
    });
    return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
  };

  for (const host of ["agents.localhost", "ai-gateway.localhost", "mcp.localhost"]) {
    it(`may call ${host} if they are on the list, and ask for it without a token`, async () => {
      const asked = await call("OPTIONS", "/any", { host, origin: STUDIO, ...PREFLIGHT });
      expect(asked.status).to.equal(204);
      expect(asked.headers).to.include({
        "access-control-allow-origin": STUDIO,
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
        "access-control-allow-headers": "authorization,x-graph-id",
        vary: "Origin",
      });
      expect(asked.headers).not.to.have.property("access-control-allow-credentials");

      const answered = await call("POST", "/any", { ...CALL_HEADERS, host, origin: STUDIO });
      expect(answered.status).to.equal(200);
      expect(answered.headers["access-control-allow-origin"]).to.equal(STUDIO);
      expect(answered.headers["access-control-expose-headers"]).to.contain("content-location");
    });

    it(`may not call ${host} if they are not, whatever the upstream says`, async () => {
      const asked = await call("OPTIONS", "/any", { host, origin: STRANGER, ...PREFLIGHT });
      expect(asked.status).to.equal(403);
      expect(asked.text).to.contain(STRANGER).and.contain("CORS_ORIGINS");
      const answered = await call("GET", "/any", { ...CALL_HEADERS, host, origin: STRANGER });
      for (const { headers } of [asked, answered]) {
        expect(headers).not.to.have.property("access-control-allow-origin");
      }
    });
  }

  it("may read errors, /ok and HEAD too", async () => {
    const answers = [
      await call("GET", "/info", { origin: STUDIO }),
      await call("GET", "/ok", { origin: STUDIO }),
      await call("HEAD", "/info", { ...CALL_HEADERS, origin: STUDIO }),
    ];
    expect(answers.map(({ status }) => status)).to.deep.equal([401, 200, 200]);
    for (const { headers } of answers) {
      expect(headers["access-control-allow-origin"]).to.equal(STUDIO);
    }
  });

  it("may call from the internet into a laptop's own network if they are on the list", async () => {
    const asked = { ...PREFLIGHT, "access-control-request-private-network": "true" };
    const { headers } = await call("OPTIONS", "/info", { origin: STUDIO, ...asked });
    expect(headers["access-control-allow-private-network"]).to.equal("true");
  });

  it("never reach the console", async () => {
    const host = "console.localhost";
    const { headers } = await call("GET", "/", { host, origin: STUDIO });
    expect(headers).not.to.have.property("access-control-allow-origin");
  });

  it("may not call at all where there is no list", async () => {
    const closed = await startGateway(await gatewayDeps({ worker: upstream.url }));
    const asked = await call("OPTIONS", "/info", { origin: STUDIO, ...PREFLIGHT }, closed.url);
    expect(asked.status).to.equal(403);
    await closed.stop();
  });

  it("an OPTIONS that is no browser's question is a call like any other", async () => {
    expect((await call("OPTIONS", "/info", {})).status).to.equal(401);
    expect((await call("OPTIONS", "/info", CALL_HEADERS)).status).to.equal(200);
  });
});
