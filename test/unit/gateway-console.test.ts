import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { expect } from "chai";
import {
  ago,
  duration,
  inputPreview,
  prettyPrint,
} from "../../runtime/gateway/console/pages/format.ts";
import { firstCall } from "../../runtime/gateway/console/pages/welcome.ts";
import { localPath } from "../../runtime/gateway/console/sign-in.ts";
import { createSignInLimit } from "../../runtime/gateway/console/sign-in-limit.ts";
import type { TraceSpan } from "../../runtime/gateway/console/trace-store.ts";
import { layOut } from "../../runtime/gateway/console/waterfall.ts";

const run = promisify(execFile);

function span(
  spanId: string,
  parentSpanId: string | null,
  offsetUs = 0,
  durationUs = 10,
): TraceSpan {
  return {
    spanId,
    parentSpanId,
    offsetUs,
    durationUs,
    service: "worker",
    name: spanId,
    kind: "CHAIN",
    startedAt: new Date(0),
    failed: false,
    statusMessage: null,
    attributes: {},
  };
}

describe("the console's call of an agent", () => {
  it("is the one that the README begins with, to the letter", async () => {
    const readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
    const call = firstCall({
      signedIn: true,
      urls: { agents: "http://localhost:8088", models: "http://localhost:8088" },
      graphIds: ["assistant"],
      devToken: "local-dev-token",
    });
    expect(readme).to.contain(`\`\`\`sh\n${call}\n\`\`\``);
  });

  it("can be pasted whatever a graph is called", async () => {
    const call = firstCall({
      signedIn: true,
      urls: { agents: "http://localhost:8088", models: "http://localhost:8088" },
      graphIds: ["it's; exit 1"],
      devToken: undefined,
    });
    const { stdout } = await run("bash", ["-c", `curl() { printf '%s\\n' "$@"; }; ${call}`]);
    expect(stdout)
      .to.contain("X-Graph-ID: it's; exit 1\n")
      .and.contain(`"assistant_id":"it's; exit 1"`);
  });
});

describe("the waterfall", () => {
  const drawn = (spans: TraceSpan[]) =>
    layOut(spans).map((row) => `${"-".repeat(row.depth)}${row.span.spanId}`);

  it("nests spans under their parents, in order of start", () => {
    const spans = [span("root", null, 0, 100), span("b", "root", 5), span("b1", "b", 6)];
    spans.push(span("c", "root", 20));
    expect(drawn(spans)).to.deep.equal(["root", "-b", "--b1", "-c"]);
  });

  it("puts bars where they were in time", () => {
    const [, child] = layOut([span("root", null, 0, 200), span("a", "root", 50, 100)]);
    expect(child).to.include({ left: 25, width: 50 });
  });

  it("shows a span whose parent never came", () => {
    expect(drawn([span("a", "missing"), span("b", "a")])).to.deep.equal(["a", "-b"]);
  });

  it("shows spans that name each other or themselves as parents once", () => {
    expect(drawn([span("a", "b"), span("b", "a"), span("c", "c")])).to.have.length(3);
  });

  it("draws a chain of a thousand spans", () => {
    const chain = Array.from({ length: 1000 }, (_, n) => span(`${n}`, n === 0 ? null : `${n - 1}`));
    expect(drawn(chain)).to.have.length(1000);
  });
});

describe("guessing the console's password", () => {
  it("is slowed down after five failures, for this address alone", () => {
    let clock = 0;
    const limit = createSignInLimit(() => clock);
    for (let failure = 0; failure < 4; failure++) limit.failed("a");
    expect(limit.waitMs("a")).to.equal(0);
    limit.failed("a");
    expect(limit.waitMs("a")).to.equal(1_000);
    expect(limit.waitMs("b")).to.equal(0);
    clock += 1_000;
    expect(limit.waitMs("a")).to.equal(0);
    limit.failed("a");
    expect(limit.waitMs("a")).to.equal(2_000);
    for (let failure = 0; failure < 20; failure++) limit.failed("a");
    expect(limit.waitMs("a")).to.equal(30_000);
    limit.succeeded("a");
    expect(limit.waitMs("a")).to.equal(0);
  });

  it("is forgotten after a quarter of an hour", () => {
    let clock = 0;
    const limit = createSignInLimit(() => clock);
    for (let failure = 0; failure < 10; failure++) limit.failed("a");
    clock += 15 * 60_000;
    limit.failed("a");
    expect(limit.waitMs("a")).to.equal(0);
  });
});

describe("where a sign-in leads", () => {
  it("is a page of the traces", () => {
    expect(localPath("/traces/abc?x=1")).to.equal("/traces/abc?x=1");
    expect(localPath(undefined)).to.equal("/traces");
  });

  for (const next of [
    "https://evil.example/traces",
    "//evil.example/traces",
    "/\\evil.example/traces",
    "/traces/../sign-out",
    "/tracesx",
    "javascript:alert(1)",
    "http://[",
  ]) {
    it(`is never ${next}`, () => {
      expect(localPath(next)).to.equal("/traces");
    });
  }
});

describe("what pages print", () => {
  it("durations and ages for people", () => {
    expect([0, 0.42, 4.25, 38.4, 1240, 200_000].map(duration)).to.deep.equal([
      "0 ms",
      "0.42 ms",
      "4.3 ms",
      "38 ms",
      "1.24 s",
      "3 min 20 s",
    ]);
    const at = (ms: number) => ago(new Date(0), ms);
    expect([1_000, 20_000, 720_000, 7_200_000, 259_200_000].map(at)).to.deep.equal([
      "just now",
      "20 s ago",
      "12 min ago",
      "2 h ago",
      "3 d ago",
    ]);
  });

  it("JSON on several lines, other text as it is", () => {
    expect(prettyPrint('{"a":1}')).to.equal('{\n  "a": 1\n}');
    expect(prettyPrint("[cut")).to.equal("[cut");
    expect(prettyPrint("text")).to.equal("text");
    expect(prettyPrint(7)).to.equal("7");
  });

  it("the last message of a run's input, even of one that was cut", () => {
    const messages = '{"messages":[{"role":"human","content":"one"},{"content":"say \\"two\\"';
    expect(inputPreview(messages)).to.equal('say "two"');
    expect(inputPreview('{"content":"cut \\u00')).to.equal("cut \\u00");
    expect(inputPreview("plain")).to.equal("plain");
  });
});
