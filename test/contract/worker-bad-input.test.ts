import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { newCaller, sharedWorker } from "../support/shared-worker.ts";
import { jsonOf, type TestWorker } from "../support/worker.ts";

const THREAD = "<thread>";
const ID = "00000000-0000-4000-8000-000000000000";
const run = (fields: object) => ({ assistant_id: "counter", input: { count: 1 }, ...fields });
const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

/** What is sent, and the place that the answer has to name. */
const MALFORMED: [method: string, path: string, body: unknown, place: (string | number)[]][] = [
  ["POST", "/runs/wait", "{", ["body"]],
  ["POST", "/runs/wait", "nonsense", ["body"]],
  ["POST", "/runs/wait", '{"assistant_id": "counter",}', ["body"]],
  ["POST", "/runs/wait", '{"assistant_id": "counter"} and more', ["body"]],
  ["POST", "/runs/wait", "\u0000", ["body"]],
  ["POST", "/runs/wait", `{"assistant_id": "counter", "input": ${deep(100_000)}}`, ["body"]],
  ["POST", "/runs/wait", `{"assistant_id": "counter", "input": {"a": ${deep(600)}}}`, ["body"]],
  ["POST", "/runs/wait", "null", ["body"]],
  ["POST", "/runs/wait", "[]", ["body"]],
  ["POST", "/runs/wait", '"counter"', ["body"]],
  ["POST", "/runs/wait", "7", ["body"]],
  ["POST", "/runs/wait", "", ["body", "assistant_id"]],
  ["POST", "/runs/wait", {}, ["body", "assistant_id"]],
  ["POST", "/runs/wait", { input: {} }, ["body", "assistant_id"]],
  ["POST", "/runs/wait", run({ assistant_id: null }), ["body", "assistant_id"]],
  ["POST", "/runs/wait", run({ assistant_id: 7 }), ["body", "assistant_id"]],
  ["POST", "/runs/wait", run({ assistant_id: "" }), ["body", "assistant_id"]],
  ["POST", "/runs/wait", run({ config: "x" }), ["body", "config"]],
  [
    "POST",
    "/runs/wait",
    run({ config: { recursion_limit: -1 } }),
    ["body", "config", "recursion_limit"],
  ],
  [
    "POST",
    "/runs/wait",
    run({ config: { recursion_limit: 1.5 } }),
    ["body", "config", "recursion_limit"],
  ],
  ["POST", "/runs/wait", run({ config: { tags: "a" } }), ["body", "config", "tags"]],
  ["POST", "/runs/wait", run({ config: { configurable: [] } }), ["body", "config", "configurable"]],
  [
    "POST",
    "/runs/wait",
    run({ config: { configurable: { checkpoint_id: 1 } } }),
    ["body", "config", "configurable", "checkpoint_id"],
  ],
  [
    "POST",
    "/runs/wait",
    run({ config: { configurable: { checkpoint_ns: "\u0000" } } }),
    ["body", "config", "configurable", "checkpoint_ns"],
  ],
  ["POST", "/runs/wait", run({ metadata: "x" }), ["body", "metadata"]],
  ["POST", "/runs/wait", run({ metadata: [1] }), ["body", "metadata"]],
  ["POST", "/runs/wait", run({ context: 7 }), ["body", "context"]],
  ["POST", "/runs/wait", run({ command: "resume" }), ["body", "command"]],
  ["POST", "/runs/wait", run({ command: { graph: "PARENT" } }), ["body", "command"]],
  [
    "POST",
    "/runs/wait",
    run({ command: { update: { "a\u0000b": 1 } } }),
    ["body", "command", "update"],
  ],
  ["POST", "/runs/wait", run({ command: { goto: 7 } }), ["body", "command", "goto"]],
  ["POST", "/runs/wait", run({ checkpoint_id: "x" }), ["body", "checkpoint_id"]],
  [
    "POST",
    "/runs/wait",
    run({ checkpoint: { checkpoint_map: { "": "x" } } }),
    ["body", "checkpoint", "checkpoint_map", ""],
  ],
  ["POST", "/runs/wait", run({ interrupt_before: 1 }), ["body", "interrupt_before"]],
  ["POST", "/runs/wait", run({ stream_mode: "everything" }), ["body", "stream_mode"]],
  ["POST", "/runs/stream", run({ stream_mode: ["values", 1] }), ["body", "stream_mode"]],
  ["POST", "/runs/stream", run({ stream_subgraphs: "yes" }), ["body", "stream_subgraphs"]],
  ["POST", "/runs", run({ multitask_strategy: "both" }), ["body", "multitask_strategy"]],
  ["POST", "/runs", run({ on_completion: "forget" }), ["body", "on_completion"]],
  ["POST", "/runs", run({ on_disconnect: 0 }), ["body", "on_disconnect"]],
  ["POST", "/runs", run({ after_seconds: -1 }), ["body", "after_seconds"]],
  ["POST", "/runs", run({ after_seconds: 1e12 }), ["body", "after_seconds"]],
  ["POST", "/runs", run({ after_seconds: "soon" }), ["body", "after_seconds"]],
  ["POST", "/runs", run({ if_not_exists: "maybe" }), ["body", "if_not_exists"]],
  ["POST", "/runs", run({ durability: "none" }), ["body", "durability"]],
  ["POST", "/runs", run({ webhook: "http://example.test" }), ["body", "webhook"]],
  ["POST", "/runs/batch", {}, ["body"]],
  ["POST", "/runs/batch", [], ["body"]],
  ["POST", "/runs/batch", [run({}), {}], ["body", 1, "assistant_id"]],
  ["POST", "/runs/cancel", { run_ids: ["x"] }, ["body", "run_ids", 0]],
  ["POST", "/runs/cancel", { status: "asleep" }, ["body", "status"]],
  ["POST", "/threads/not-a-uuid/runs/wait", run({}), ["path", "thread_id"]],
  ["GET", "/threads/%00", undefined, ["path", "thread_id"]],
  ["GET", "/threads/%E0%A4%A", undefined, ["path", "thread_id"]],
  ["POST", "/threads", { thread_id: "x" }, ["body", "thread_id"]],
  ["POST", "/threads", { metadata: "x" }, ["body", "metadata"]],
  ["POST", "/threads", { if_exists: "overwrite" }, ["body", "if_exists"]],
  [
    "POST",
    "/threads",
    { supersteps: [{ updates: [{}] }] },
    ["body", "supersteps", 0, "updates", 0, "as_node"],
  ],
  ["POST", "/threads", { ttl: { ttl: 5 } }, ["body", "ttl"]],
  ["PATCH", THREAD, {}, ["body", "metadata"]],
  ["PATCH", THREAD, { metadata: 1 }, ["body", "metadata"]],
  ["POST", "/threads/search", { limit: 0 }, ["body", "limit"]],
  ["POST", "/threads/search", { limit: 1e9 }, ["body", "limit"]],
  ["POST", "/threads/search", { offset: -1 }, ["body", "offset"]],
  ["POST", "/threads/search", { sort_by: "id; DROP TABLE run" }, ["body", "sort_by"]],
  ["POST", "/threads/search", { status: "asleep" }, ["body", "status"]],
  ["POST", "/threads/search", { ids: ["x"] }, ["body", "ids", 0]],
  ["POST", "/threads/search", { metadata: [] }, ["body", "metadata"]],
  ["POST", "/threads/count", { values: 1 }, ["body", "values"]],
  ["GET", `${THREAD}/state/x`, undefined, ["path", "checkpoint_id"]],
  ["GET", `${THREAD}/state?subgraphs=perhaps`, undefined, ["query", "subgraphs"]],
  ["POST", `${THREAD}/state`, { values: "x" }, ["body", "values"]],
  ["POST", `${THREAD}/state`, { as_node: "a\u0000" }, ["body", "as_node"]],
  ["POST", `${THREAD}/state/checkpoint`, {}, ["body", "checkpoint"]],
  ["POST", `${THREAD}/history`, { limit: "x" }, ["body", "limit"]],
  ["POST", `${THREAD}/history`, { before: "x" }, ["body", "before"]],
  ["GET", `${THREAD}/history?limit=x`, undefined, ["query", "limit"]],
  ["GET", `${THREAD}/runs?limit=-1`, undefined, ["query", "limit"]],
  ["GET", `${THREAD}/runs?status=asleep`, undefined, ["query", "status"]],
  ["GET", `${THREAD}/runs/x`, undefined, ["path", "run_id"]],
  ["GET", "/runs/x/join", undefined, ["path", "run_id"]],
  ["GET", `/runs/${ID}/stream?stream_mode=everything`, undefined, ["query", "stream_mode", 0]],
  ["POST", `${THREAD}/runs/${ID}/cancel?action=explode`, undefined, ["query", "action"]],
  ["POST", `${THREAD}/runs/${ID}/cancel?wait=perhaps`, undefined, ["query", "wait"]],
  ["POST", "/assistants/search", { limit: "all" }, ["body", "limit"]],
];

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

  it("is no reason to lose what was sent rightly at the edge of the possible", async () => {
    const wide = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`key ${n}`, n]));
    const nested = JSON.parse(`${'{"a":'.repeat(450)}1${"}".repeat(450)}`);
    for (const given of [wide, nested, "x".repeat(5_000_000), null, [], 1e308, -0.5, "\ud800"]) {
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
