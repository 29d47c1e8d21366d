import { expect } from "chai";
import { MOST_DEATHS, RestartHistory } from "../../runtime/embedded/restart-history.ts";

describe("a service that keeps dying", () => {
  it("is started again after 0.2 s, then twice as long each time", () => {
    const history = new RestartHistory();

    const pauses = [1_000, 2_000, 3_000, 4_000].map((at) => history.afterDeath(at));

    expect(pauses).to.deep.equal([200, 400, 800, 1_600]);
  });

  it("is given up at the fifth death within a minute", () => {
    const history = new RestartHistory();
    for (let death = 1; death < MOST_DEATHS; death++) history.afterDeath(death * 1_000);

    expect(history.afterDeath(50_000)).to.equal(undefined);
  });

  it("begins anew once it has run for a minute", () => {
    const history = new RestartHistory();
    for (let death = 1; death < MOST_DEATHS; death++) history.afterDeath(death * 1_000);

    expect(history.afterDeath(70_000)).to.equal(200);
  });
});
