import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { MALFORMED, THREAD } from "../fixtures/worker/malformed-requests.ts";
import { newCaller, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

describe("what is sent wrongly", () => {
  let worker: TestWorker;
  const caller = newCaller("counter");
  let thread: string;

  before(async () => {
    worker = (await sharedWorker()).worker;
    const { thread_id } = await jsonOf(worker.call(caller, "POST", "/threads", {}));
    thread = `/threads/${thread_id}`;
  });

  const shown = (body: unknown) => (JSON.stringify(body) ?? "").slice(0, 60);
  for (const [method, path, body, place] of MALFORMED) {
    it(`is refused with its place: ${method} ${path} ${shown(body)}`, async () => {
      const answer = await worker.call(caller, method, path.replace(THREAD, thread), body);
      const said = await jsonOf(answer);
      expect(answer.status, JSON.stringify(said)).to.equal(422);
      expect(said).to.have.all.keys("detail", "message");
      expect(said.message).to.be.a("string").and.not.equal("");
      expect(said.detail[0]).to.have.all.keys("type", "loc", "msg", "input");
      expect(said.detail[0].loc).to.deep.equal(place);
    });
  }

  it("is answered to the letter where assistant_id is missing", async () => {
    const answer = await worker.call(caller, "POST", "/runs/wait", { input: { count: 1 } });
    expect(await answer.json()).to.deep.equal({
      detail: [
        {
          type: "missing",
          loc: ["body", "assistant_id"],
          msg: "Field required",
          input: { input: { count: 1 } },
        },
      ],
      message: "Invalid body: field assistant_id is required.",
    });
  });

  it("is answered to the letter where the body is not JSON", async () => {
    const said = await jsonOf(worker.call(caller, "POST", "/runs/wait", "{"));
    expect(said.detail).to.have.length(1);
    expect(said.detail[0]).to.include({ type: "json_invalid" });
    expect(said.detail[0].loc).to.deep.equal(["body"]);
    expect(said.detail[0].msg).to.match(/^JSON decode error: /);
  });

  it("is named with what there is instead where a stream mode is unknown", async () => {
    const modes =
      "values, updates, messages, messages-tuple, custom, events, debug, tasks, checkpoints";
    const path = `/runs/${randomUUID()}/stream?stream_mode=values,foo`;
    const { detail, message } = await jsonOf(worker.call(caller, "GET", path));
    expect(message).to.equal(`Invalid query: stream_mode.1: "foo" is not one of ${modes}.`);
    expect(detail[0]).to.deep.include({ loc: ["query", "stream_mode", 1], input: "foo" });

    for (const [stream_mode, place] of [
      ["foo", "stream_mode"],
      [["values", "foo"], "stream_mode.1"],
    ]) {
      const body = { assistant_id: "counter", stream_mode };
      const said = await jsonOf(worker.call(caller, "POST", "/runs/wait", body));
      expect(said.message).to.equal(`Invalid body: ${place}: "foo" is not one of ${modes}.`);
      expect(said.detail[0].input).to.equal("foo");
    }
  });

  it("is a 400 where Last-Event-ID is no id", async () => {
    const made = await jsonOf(
      worker.call(caller, "POST", "/runs", { assistant_id: "counter", input: { count: 1 } }),
    );
    for (const id of ["x", "-2", "1.5", "99999999999999999999"]) {
      const answer = await worker.call(caller, "GET", `/runs/${made.run_id}/stream`, undefined, {
        headers: { "last-event-id": id },
      });
      expect(answer.status, id).to.equal(400);
      expect(await jsonOf(answer)).to.include({ error: "bad_request" });
    }
  });

  it("is a 413 where it is larger than the worker takes", async () => {
    const answer = await worker.call(
      caller,
      "POST",
      "/runs/wait",
      "x".repeat(10 * 1024 * 1024 + 1),
    );
    expect(answer.status).to.equal(413);
    expect(await jsonOf(answer)).to.include({ error: "payload_too_large" });
  });

  it("is refused where it has more parts than can be looked through in passing", async () => {
    for (const part of ["{}", '"a,b"', "1"]) {
      const many = (count: number) => `{"metadata":{"a":[${Array(count).fill(part).join()}]}}`;
      expect((await worker.call(caller, "POST", "/threads/search", many(99_000))).status).to.equal(
        200,
      );
      const answer = await worker.call(caller, "POST", "/threads/search", many(300_000));
      expect(answer.status).to.equal(422);
      const { message, detail } = await jsonOf(answer);
      expect(message).to.equal("Invalid body: it has more than 200000 parts.");
      expect(detail[0]).to.deep.include({ type: "too_many_parts", loc: ["body"] });
    }
  });

  it("is no reason to lose what was sent rightly at the edge of the possible", async () => {
    const wide = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`key ${n}`, n]));
    const nested = JSON.parse(`${'{"a":'.repeat(450)}1${"}".repeat(450)}`);
    const long = ["x".repeat(9_500_000), '"\\'.repeat(2_300_000)];
    for (const given of [wide, nested, ...long, null, [], 1e308, -0.5, "\ud800"]) {
      const { thread_id } = await jsonOf(worker.call(caller, "POST", "/threads", {}));
      const config = { ...caller, graphId: "config" };
      const values = await jsonOf(
        worker.call(config, "POST", "/runs/wait", { assistant_id: "config", input: { given } }),
      );
      expect(values.given).to.deep.equal(given);
      expect(thread_id).to.be.a("string");
    }
  });

  it("never is a 5xx, whatever bytes come", async () => {
    const alphabet = [
      "{",
      "}",
      "[",
      "]",
      '"',
      ":",
      ",",
      "assistant_id",
      "counter",
      "\\u0000",
      "1e999",
    ];
    const strange = Array.from({ length: 60 }, (_, n) =>
      Array.from(
        { length: 12 },
        (_, m) => alphabet[(n * 7 + m * m * (n + 3)) % alphabet.length],
      ).join(""),
    );
    for (const path of [
      "/runs/wait",
      "/runs/stream",
      "/threads",
      "/threads/search",
      "/runs/batch",
    ]) {
      for (const body of strange) {
        const answer = await worker.call(caller, "POST", path, body);
        expect(answer.status, `${path} ${body}`).to.be.within(400, 499);
        expect(await jsonOf(answer)).to.have.property("message");
      }
    }
  });

  it("with an unknown id is a 404, never an empty success", async () => {
    for (const [method, path] of [
      ["GET", `/threads/${randomUUID()}`],
      ["GET", `/threads/${randomUUID()}/runs/${randomUUID()}`],
      ["GET", `/runs/${randomUUID()}/join`],
      ["GET", `/runs/${randomUUID()}/stream`],
      ["POST", `/threads/${randomUUID()}/runs/${randomUUID()}/cancel`],
      ["DELETE", `/threads/${randomUUID()}`],
    ] as const) {
      const answer = await worker.call(caller, method, path);
      expect(answer.status, path).to.equal(404);
      expect(await jsonOf(answer)).to.include({ error: "not_found", details: null });
    }
  });
});
