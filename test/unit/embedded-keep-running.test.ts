import { expect } from "chai";
import { UserError } from "../../runtime/common/errors.ts";
import { type KeepRunningEvents, keepRunning } from "../../runtime/embedded/keep-running.ts";
import { GivesUp, MOST_DEATHS } from "../../runtime/embedded/restart-policy.ts";
import type { Service } from "../../runtime/embedded/service.ts";

const silent: KeepRunningEvents = { died: () => {}, back: () => {} };

/** A service that dies as soon as it is up. */
class Mayfly implements Service {
  readonly title = "Mayfly";
  readonly logFile = "/logs/mayfly.log";
  starts = 0;

  async start(): Promise<void> {
    this.starts += 1;
  }

  async death(): Promise<string> {
    return "it exited with code 7";
  }

  async stop(): Promise<void> {}

  kill(): void {}
}

describe("keeping a service running", () => {
  it("ends with the reason and the log's place after five deaths", async () => {
    const service = new Mayfly();

    const error = await keepRunning(
      service,
      new AbortController().signal,
      new GivesUp(),
      silent,
    ).catch((reason) => reason);

    expect(error).to.be.instanceOf(UserError);
    expect(error.message).to.include("Mayfly").and.include("it exited with code 7");
    expect(error.hint).to.include("/logs/mayfly.log");
    expect(service.starts).to.equal(MOST_DEATHS - 1);
  });

  it("starts nothing any more once everything is being stopped", async () => {
    const service = new Mayfly();
    const stopping = new AbortController();

    await keepRunning(service, stopping.signal, new GivesUp(), {
      ...silent,
      died: () => stopping.abort(),
    });

    expect(service.starts).to.equal(0);
  });
});
