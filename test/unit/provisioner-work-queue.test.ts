import { expect } from "chai";
import { WorkQueue } from "../../runtime/provisioner/work-queue.ts";
import { eventually } from "../support/eventually.ts";

interface Work {
  started: string[];
  /** Ends the work on a key that is under way. */
  finish: Map<string, (againMs?: number) => void>;
  fail: Map<string, (error: Error) => void>;
  failures: string[];
  queue: WorkQueue;
}

function startQueue(concurrency = 2): Work {
  const work: Omit<Work, "queue"> = {
    started: [],
    finish: new Map(),
    fail: new Map(),
    failures: [],
  };
  const queue = new WorkQueue({
    concurrency,
    backoffMs: [1, 5],
    onFailure: (key) => work.failures.push(key),
    work: (key) => {
      work.started.push(key);
      return new Promise((resolve, reject) => {
        work.finish.set(key, resolve);
        work.fail.set(key, reject);
      });
    },
  });
  return { ...work, queue };
}

describe("the provisioner's queue of work", () => {
  it("works on a key once, however often it was asked for", async () => {
    const { queue, started, finish } = startQueue(1);
    queue.add("first");
    for (let times = 0; times < 5; times += 1) queue.add("second");
    finish.get("first")?.();
    await eventually("the second", () => started.length === 2);
    finish.get("second")?.();
    await queue.stop();
    expect(started).to.deep.equal(["first", "second"]);
  });

  it("works on a key again that was asked for meanwhile, but never twice at a time", async () => {
    const { queue, started, finish } = startQueue();
    queue.add("key");
    queue.add("key");
    expect(started).to.deep.equal(["key"]);
    finish.get("key")?.();
    await eventually("the second time", () => started.length === 2);
    finish.get("key")?.();
    await queue.stop();
  });

  it("works on several keys, but not on more than it should", async () => {
    const { queue, started, finish } = startQueue(2);
    for (const key of ["a", "b", "c"]) queue.add(key);
    expect(started).to.deep.equal(["a", "b"]);
    finish.get("b")?.();
    await eventually("the third", () => started.includes("c"));
    for (const key of ["a", "c"]) finish.get(key)?.();
    await queue.stop();
  });

  it("tries again what failed, and tells of it", async () => {
    const { queue, started, fail, finish, failures } = startQueue();
    queue.add("key");
    fail.get("key")?.(new Error("no"));
    await eventually("another try", () => started.length === 2);
    finish.get("key")?.();
    await queue.stop();
    expect(failures).to.deep.equal(["key"]);
  });

  it("comes back to a key when its work says so", async () => {
    const { queue, started, finish } = startQueue();
    queue.add("key");
    finish.get("key")?.(1);
    await eventually("the second time", () => started.length === 2);
    finish.get("key")?.();
    await queue.stop();
  });

  it("waits for what is under way when it stops, and takes up nothing more", async () => {
    const { queue, started, finish } = startQueue(1);
    queue.add("under way");
    queue.add("waiting");
    const stopped = queue.stop();
    queue.add("too late");
    finish.get("under way")?.(1);
    await stopped;
    expect(started).to.deep.equal(["under way"]);
  });
});
