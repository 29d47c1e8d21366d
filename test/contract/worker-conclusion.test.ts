import { expect } from "chai";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { sentEvents } from "../support/worker-events.ts";
import { WorkerPair } from "../support/worker-pair.ts";

const caller = { graphId: "counter" };
const error = { error: "Error", message: "What came of the run could not be stored." };

describe("a run whose end the database does not take", () => {
  let pair: WorkerPair;

  before(async () => {
    pair = await WorkerPair.prepare();
    await pair.ready();
  });
  after(() => pair.stop());

  const refuse = (condition: string) =>
    pair.query(
      `ALTER TABLE worker.run ADD CONSTRAINT refusal CHECK (NOT (${condition})) NOT VALID`,
    );
  const take = () => pair.query("ALTER TABLE worker.run DROP CONSTRAINT refusal");

  it("fails, is told so everywhere, and leaves its thread free", async () => {
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    await refuse("output::text LIKE '%unwelcome%'");

    const answer = await pair.a.call(caller, "POST", `/threads/${thread_id}/runs/stream`, {
      assistant_id: "counter",
      input: { count: 1, note: "unwelcome" },
    });
    const events = await collect(sentEvents(answer));

    expect(events.at(-1)).to.deep.include({ event: "error", data: error });
    const [run] = await client.runs.list(thread_id);
    expect(run?.status).to.equal("error");
    expect(await client.runs.join(thread_id, run?.run_id ?? "")).to.deep.equal({
      __error__: error,
    });
    expect(await client.threads.get(thread_id)).to.deep.include({ status: "error", error });
    await take();
    const input = { count: 1, note: "welcome" };
    expect(await client.runs.wait(thread_id, "counter", { input })).to.include({ note: "welcome" });
  });

  it("in any form keeps no lease, and is done again", async () => {
    const client = await pair.a.client(caller);
    const { thread_id } = await client.threads.create();
    await refuse("status IN ('success', 'error')");
    const run = await client.runs.create(thread_id, "counter", { input: { count: 1 } });
    await eventually("it could not be concluded", () =>
      pair.a.log.split("\n").some((line) => {
        return line.includes(run.run_id) && line.includes("could not be concluded");
      }),
    );

    await take();

    expect(await client.runs.join(thread_id, run.run_id)).to.deep.equal({ count: 2 });
    expect((await client.threads.get(thread_id)).status).to.equal("idle");
  });
});
