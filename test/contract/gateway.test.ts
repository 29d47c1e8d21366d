import { Client } from "@langchain/langgraph-sdk";
import { expect } from "chai";
import { createAssertionVerifier } from "../../runtime/common/identity.ts";
import { createApp } from "../../runtime/gateway/app.ts";
import { eventually } from "../support/eventually.ts";
import { type FrontDoor, openFrontDoor } from "../support/front-door.ts";
import {
  ASSERTION_PUBLIC_KEY,
  CALL_HEADERS,
  DEV_TOKEN,
  GRAPH_ID,
  gatewayDeps,
  TENANT,
} from "../support/gateway.ts";
import { getWith } from "../support/raw-http.ts";

describe("the gateway's front door", () => {
  let door: FrontDoor;
  let call: FrontDoor["call"];

  before(async () => {
    door = await openFrontDoor();
    call = door.call;
  });
  after(() => door.stop());

  describe("tokens", () => {
    it("a call without a token is a 401 that says how to send one", async () => {
      const { status, body, headers } = await call("/threads/1", { "x-graph-id": GRAPH_ID });
      expect(status).to.equal(401);
      expect(body).to.have.keys("error", "message", "details");
      expect(body).to.include({ error: "unauthorized", details: null });
      expect(body.message).to.contain("Authorization: Bearer");
      expect(headers["www-authenticate"]).to.equal("Bearer");
    });

    for (const authorization of [
      "Bearer wrong",
      `Basic ${DEV_TOKEN}`,
      "Bearer",
      `Bearer ${DEV_TOKEN}x`,
      "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.",
    ]) {
      it(`${JSON.stringify(authorization)} is a 401`, async () => {
        const { status, body } = await call("/info", { ...CALL_HEADERS, authorization });
        expect(status).to.equal(401);
        expect(body.error).to.equal("unauthorized");
      });
    }

    it("a token in X-Api-Key counts where there is no Authorization", async () => {
      const key = { "x-api-key": DEV_TOKEN, "x-graph-id": GRAPH_ID };
      expect((await call("/info", key)).status).to.equal(200);
      expect((await call("/info", { ...key, authorization: "Bearer no" })).status).to.equal(401);
    });

    it("a tenant header that differs from the token's tenant is a 403", async () => {
      const { status, body } = await call("/info", { ...CALL_HEADERS, "x-tenant-id": "other" });
      expect(status).to.equal(403);
      expect(body.error).to.equal("forbidden");
      const own = await call("/info", { ...CALL_HEADERS, "x-tenant-id": TENANT });
      expect(own.status).to.equal(200);
    });
  });

  describe("the graph id", () => {
    const token = { authorization: CALL_HEADERS.authorization };

    it("is taken from the header or from the query, which is passed on as it is", async () => {
      expect((await call("/info", CALL_HEADERS)).body.url).to.equal("/info");
      const { status, body } = await call(`/info?graph_id=${GRAPH_ID}&b=%20x`, token);
      expect(status).to.equal(200);
      expect(body.url).to.equal(`/info?graph_id=${GRAPH_ID}&b=%20x`);
    });

    it("missing is a 400 that says how to send it", async () => {
      const { status, body } = await call("/runs/wait", token, "POST");
      expect(status).to.equal(400);
      expect(body.error).to.equal("graph_id_missing");
      expect(body.message).to.contain("X-Graph-ID").and.contain("graph_id");
    });

    it("said twice with different words is a 400", async () => {
      const { status, body } = await call("/info?graph_id=other", CALL_HEADERS);
      expect(status).to.equal(400);
      expect(body.message).to.include(`different graphs: ${GRAPH_ID}, other.`);
      expect((await call(`/info?graph_id=${GRAPH_ID}`, CALL_HEADERS)).status).to.equal(200);
    });

    it("in two headers counts once, and is a 400 with different words", async () => {
      const headers = ["host", "agents.localhost", ...Object.entries(CALL_HEADERS).flat()];
      const same = await getWith(door.url, "/info", [...headers, "X-Graph-ID", GRAPH_ID]);
      expect(same.status).to.equal(200);
      const { status, body } = await getWith(door.url, "/info", [...headers, "X-Graph-ID", "b"]);
      expect(status).to.equal(400);
      expect(body.error).to.equal("graph_id_ambiguous");
      expect(body.message).to.include(`different graphs: ${GRAPH_ID}, b.`);
    });

    it("that nobody serves is a 404 in JSON", async () => {
      const { status, body } = await call("/info", { ...token, "x-graph-id": "nobody" });
      expect(status).to.equal(404);
      expect(body.error).to.equal("not_found");
      expect(body.message).to.contain("nobody");
    });

    it("is not looked up for callers without a token", async () => {
      expect((await call("/info", { "x-graph-id": "nobody" })).status).to.equal(401);
    });
  });

  it("the worker gets a signed assertion of who calls, and neither token nor tenant header", async () => {
    const { body } = await call("/info", {
      ...CALL_HEADERS,
      "x-tenant-id": TENANT,
      "x-api-key": "k",
      cookie: "a=b",
      "x-platform-assertion": "forged",
      "X-Platform-Tenant": "forged",
      "x-forwarded-for": "1.2.3.4",
      forwarded: "for=1.2.3.4",
      "x-kept": "yes",
    });
    const seen = body.headers;
    for (const name of [
      "authorization",
      "x-api-key",
      "cookie",
      "x-tenant-id",
      "x-platform-tenant",
      "x-forwarded-for",
      "forwarded",
    ]) {
      expect(seen, name).not.to.have.property(name);
    }
    expect(seen["x-kept"]).to.equal("yes");
    expect(seen.host).to.equal(door.worker.host);
    const verifier = await createAssertionVerifier(ASSERTION_PUBLIC_KEY);
    const assertion = await verifier.verify(seen["x-platform-assertion"], [GRAPH_ID]);
    expect(assertion).to.include({ tenant: TENANT, graphId: GRAPH_ID });
  });

  it("a token of one graph opens no other", async () => {
    const verifier = { verify: async () => ({ tenant: TENANT, subject: "kim", graphId: "other" }) };
    const app = createApp(await gatewayDeps({ verifier }));
    const answer = await app.request("http://agents.localhost/info", { headers: CALL_HEADERS });
    expect(answer.status).to.equal(403);
    expect(await answer.json()).to.include({ error: "forbidden" });
  });

  it("a sane request id is kept and echoed, any other is replaced", async () => {
    const kept = await call("/info", { ...CALL_HEADERS, "x-request-id": "my-id.1" });
    expect(kept.headers["x-request-id"]).to.equal("my-id.1");
    expect(kept.body.headers["x-request-id"]).to.equal("my-id.1");
    const replaced = await call("/info", { ...CALL_HEADERS, "x-request-id": "a b" });
    expect(replaced.headers["x-request-id"]).to.match(/^[0-9a-f-]{36}$/);
    const refused = await call("/info", { "x-request-id": "mine" });
    expect(refused.headers["x-request-id"]).to.equal("mine");
  });

  it("logs one line a call with request id, tenant, graph and status, and no token", async () => {
    await call("/info", { ...CALL_HEADERS, "x-request-id": "logged-1" });
    const logged = () => door.log.lines.filter((line) => line.request_id === "logged-1");
    await eventually("the call is logged", () => logged().length > 0);
    const lines = logged();
    expect(lines).to.have.length(1);
    expect(lines[0]).to.include({ tenant: TENANT, graph_id: GRAPH_ID, status: 200, path: "/info" });
    expect(JSON.stringify(door.log.lines)).not.to.contain(DEV_TOKEN);
  });

  it("the LangGraph SDK streams a run through it", async () => {
    const client = new Client({
      apiUrl: door.url.origin,
      apiKey: DEV_TOKEN,
      defaultHeaders: { "X-Graph-ID": GRAPH_ID },
    });
    const events: string[] = [];
    for await (const { event } of client.runs.stream(null, GRAPH_ID, { input: {} })) {
      events.push(event);
    }
    expect(events).to.deep.equal(["metadata", "values"]);
  });
});
