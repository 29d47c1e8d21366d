import { expect } from "chai";
import { pino } from "pino";
import {
  createUsageRecorder,
  type UsageRecord,
} from "../../runtime/model-gateway/usage-recorder.ts";
import { eventually } from "../support/eventually.ts";

const record = (id: string): UsageRecord => ({
  id,
  tenant: "acme",
  agent: null,
  provider: "openai",
  model: "m",
  input_tokens: 1,
  output_tokens: 1,
  estimated: false,
  status: 200,
  streamed: false,
  duration_ms: 1,
  request_id: id,
  trace_id: null,
  created_at: new Date(0).toISOString(),
});

const lost = () => Object.assign(new Error("gone"), { code: "ECONNREFUSED" });

describe("Usage", () => {
  let logs: { msg: string; usage?: UsageRecord }[];
  const logger = () => pino({}, { write: (line: string) => void logs.push(JSON.parse(line)) });

  beforeEach(() => {
    logs = [];
  });

  it("is written in batches, in order, without holding up the caller", async () => {
    const batches: string[][] = [];
    const recorder = createUsageRecorder({
      logger: logger(),
      insert: async (records) => void batches.push(records.map(({ id }) => id)),
    });

    for (const id of ["a", "b", "c"]) recorder.record(record(id));
    await recorder.close();

    expect(batches.flat()).to.deep.equal(["a", "b", "c"]);
  });

  it("waits for a database that is away", async () => {
    const written: string[] = [];
    let failures = 3;
    const recorder = createUsageRecorder({
      logger: logger(),
      patienceMs: 1,
      insert: async (records) => {
        if (failures-- > 0) throw lost();
        written.push(...records.map(({ id }) => id));
      },
    });

    recorder.record(record("a"));
    recorder.record(record("b"));
    await eventually("all is written", () => written.length === 2);

    expect(written).to.deep.equal(["a", "b"]);
  });

  it("that does not fit in the queue is logged in full", async () => {
    const recorder = createUsageRecorder({
      logger: logger(),
      capacity: 1,
      closeMs: 1,
      insert: () => new Promise(() => {}),
    });

    recorder.record(record("a"));
    recorder.record(record("b"));

    expect(logs).to.have.length(1);
    expect(logs[0]?.msg).to.contain("queue is full");
    expect(logs[0]?.usage).to.deep.equal(record("b"));
    await recorder.close();
  });

  it("that the database refuses is logged in full, and its neighbours are written", async () => {
    const written: string[] = [];
    const recorder = createUsageRecorder({
      logger: logger(),
      insert: async (records) => {
        if (records.some(({ id }) => id === "bad")) throw new Error("refused");
        written.push(...records.map(({ id }) => id));
      },
    });

    for (const id of ["a", "bad", "c"]) recorder.record(record(id));
    await recorder.close();

    expect(written).to.deep.equal(["a", "c"]);
    expect(logs.map(({ usage }) => usage?.id)).to.deep.equal(["bad"]);
  });

  it("that can't be written before the end is logged in full", async () => {
    const recorder = createUsageRecorder({
      logger: logger(),
      closeMs: 1,
      insert: () => new Promise(() => {}),
    });

    recorder.record(record("a"));
    await recorder.close();

    expect(logs.map(({ usage }) => usage?.id)).to.deep.equal(["a"]);
  });
});
