import { expect } from "chai";
import { GivesUp, MOST_DEATHS, NeverGivesUp } from "../../runtime/embedded/restart-policy.ts";

describe("a program of the platform that keeps dying", () => {
  it("is started again after 0.2 s, then twice as long each time", () => {
    const policy = new GivesUp();

    const pauses = [1_000, 2_000, 3_000, 4_000].map((at) => policy.afterDeath(at));

    expect(pauses).to.deep.equal([200, 400, 800, 1_600]);
  });

  it("is given up at the fifth death within a minute", () => {
    const policy = new GivesUp();
    for (let death = 1; death < MOST_DEATHS; death++) policy.afterDeath(death * 1_000);

    expect(policy.afterDeath(50_000)).to.equal(undefined);
  });

  it("begins anew once it has run for a minute", () => {
    const policy = new GivesUp();
    for (let death = 1; death < MOST_DEATHS; death++) policy.afterDeath(death * 1_000);

    expect(policy.afterDeath(70_000)).to.equal(200);
  });
});

describe("a program of the agents that keeps dying", () => {
  it("is started again for ever, at last every half minute", () => {
    const policy = new NeverGivesUp();

    const pauses = Array.from({ length: 12 }, () => policy.afterDeath(0, 1_000));

    expect(pauses.slice(0, 4)).to.deep.equal([200, 400, 800, 1_600]);
    expect(pauses.slice(-3)).to.deep.equal([30_000, 30_000, 30_000]);
  });

  it("begins anew once it has been up for a minute", () => {
    const policy = new NeverGivesUp();
    for (let death = 1; death < 9; death++) policy.afterDeath(0, 1_000);

    expect(policy.afterDeath(0, 60_000)).to.equal(200);
  });
});
