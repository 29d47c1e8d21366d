import { expect } from "chai";
import { type KubernetesClient, KubernetesError } from "../../runtime/common/kubernetes/client.ts";
import {
  createStatusWriter,
  type StatusWriter,
} from "../../runtime/gateway/kubernetes-routes/status-writer.ts";
import { eventually } from "../support/eventually.ts";
import { recordingLogger } from "../support/gateway.ts";

const PATH = "/status";

describe("writing a route's status", () => {
  const { logger } = recordingLogger();
  let writer: StatusWriter;
  let pauses: number[];
  let patches: unknown[];
  /** What the API server answers to each write, in turn; then it takes them all. */
  let refusals: Error[];

  beforeEach(() => {
    pauses = [];
    patches = [];
    refusals = [];
    const client: Pick<KubernetesClient, "mergePatch"> = {
      async mergePatch(_, patch) {
        const refusal = refusals.shift();
        if (refusal !== undefined) throw refusal;
        patches.push(patch);
      },
    };
    writer = createStatusWriter({
      client: client as KubernetesClient,
      logger,
      random: () => 0,
      now: () => 0,
      pause: async (ms) => pauses.push(ms),
    });
  });
  afterEach(() => writer.stop());

  const plan = (version: number) =>
    writer.plan([{ path: PATH, resourceVersion: String(version), status: { version } }]);
  const written = (count: number) => eventually(`${count} writes`, () => patches.length === count);

  it("happens once for a version of the object, however often it is planned", async () => {
    plan(1);
    plan(1);
    await written(1);
    plan(1);
    plan(2);
    await written(2);
    expect(patches[1]).to.deep.equal({
      metadata: { resourceVersion: "2" },
      status: { version: 2 },
    });
  });

  it("does not happen for what is no longer planned by then", async () => {
    plan(1);
    writer.plan([]);
    plan(2);
    await written(1);
    expect(patches[0]).to.have.nested.property("status.version", 2);
  });

  it("is given up where another replica was faster, until the object changes", async () => {
    refusals.push(new KubernetesError(409, "Conflict", "modified"));
    plan(1);
    await eventually("it was refused", () => refusals.length === 0);
    plan(2);
    await written(1);
    expect(patches[0]).to.have.nested.property("status.version", 2);
  });

  it("is tried again, less and less often, where the server fails", async () => {
    const failure = new KubernetesError(503, "ServiceUnavailable", "later");
    refusals.push(failure, failure, new Error("socket hang up"));
    plan(1);
    await written(1);
    expect(pauses.slice(0, 4)).to.deep.equal([0, 500, 1_000, 2_000]);
  });

  it("gives way for longer and longer to someone who always writes another", async () => {
    for (let version = 1; version <= 12; version++) {
      plan(version);
      await written(version);
    }
    const waits = pauses.filter((ms) => ms > 0);
    expect([...new Set(waits)]).to.deep.equal([1_000, 2_000, 4_000, 8_000, 16_000, 30_000]);
  });
});
