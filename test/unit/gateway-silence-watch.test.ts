import { expect } from "chai";
import { createSilenceWatch, type WatchedCall } from "../../runtime/gateway/proxy/silence-watch.ts";

const OPTIONS = { silentMs: 15_000, probeMs: 60_000, strikes: 3 };

/** A call that has been silent since 0, and whether it was given up. */
function silentCall(origin = "http://worker") {
  return {
    origin,
    heardAt: 0,
    paused: false,
    givenUp: false,
    giveUp() {
      this.givenUp = true;
    },
  } satisfies WatchedCall & { givenUp: boolean };
}

/** A watch over upstreams of which only `alive` answer. */
function setUp(alive: string[] = []) {
  const asked: string[] = [];
  const watch = createSilenceWatch(OPTIONS, async (origin) => {
    asked.push(origin);
    return alive.includes(origin);
  });
  return { watch, asked, alive };
}

describe("the watch over silent upstreams", () => {
  it("gives a silent call up once its upstream left three probes unanswered", async () => {
    const { watch, asked } = setUp();
    const call = silentCall();
    watch.add(call);
    await watch.sweep(14_999);
    expect(asked).to.have.length(0);
    for (const now of [15_000, 20_000]) await watch.sweep(now);
    expect(call.givenUp).to.equal(false);
    await watch.sweep(25_000);
    expect(call.givenUp).to.equal(true);
  });

  it("waits for ever where the upstream answers, and begins to count anew when it did", async () => {
    const { watch, alive } = setUp(["http://worker"]);
    const call = silentCall();
    watch.add(call);
    for (let now = 15_000; now < 3_600_000; now += 60_000) await watch.sweep(now);
    alive.pop();
    await watch.sweep(3_600_000);
    await watch.sweep(3_605_000);
    alive.push("http://worker");
    await watch.sweep(3_610_000);
    alive.pop();
    await watch.sweep(3_615_000);
    expect(call.givenUp).to.equal(false);
  });

  it("asks an upstream once for all its calls, and spares those that were heard of", async () => {
    const { watch, asked } = setUp();
    const silent = [silentCall(), silentCall()];
    const lively = silentCall();
    for (const call of [...silent, lively]) watch.add(call);
    for (const now of [15_000, 20_000, 25_000]) {
      lively.heardAt = now - 1;
      await watch.sweep(now);
    }
    expect(asked).to.have.length(3);
    expect(silent.every(({ givenUp }) => givenUp)).to.equal(true);
    expect(lively.givenUp).to.equal(false);
  });

  it("takes a client's slowness for no silence, and one upstream's silence for its own", async () => {
    const { watch, asked } = setUp(["http://other"]);
    const paused = { ...silentCall(), paused: true };
    const other = silentCall("http://other");
    for (const call of [paused, other]) watch.add(call);
    for (const now of [15_000, 20_000, 25_000, 30_000]) await watch.sweep(now);
    expect(new Set(asked)).to.deep.equal(new Set(["http://other"]));
    expect(paused.givenUp || other.givenUp).to.equal(false);
  });

  it("forgets a call that has ended", async () => {
    const { watch, asked } = setUp();
    const call = silentCall();
    watch.add(call);
    watch.remove(call);
    await watch.sweep(15_000);
    expect(asked).to.have.length(0);
  });
});
