import { expect } from "chai";
import { refuseSerializedObjects } from "../../runtime/worker/serialized-objects.ts";
import { failureOf } from "../support/failure.ts";

/** What a body has to hold somewhere to be looked through at all. */
const HINT = '"lc"';

describe("the search for serialised objects in a body", () => {
  it("looks at each part once, however wide and deep it is", async () => {
    let visits = 0;
    const counted = <T extends object>(part: T): T =>
      new Proxy(part, {
        ownKeys(target) {
          visits += 1;
          return Reflect.ownKeys(target);
        },
      });
    const [depth, width] = [400, 50];
    let body: object = counted({});
    for (let level = 0; level < depth; level++) {
      const leaves = Array.from({ length: width }, () => counted({ a: 1 }));
      body = counted({ deeper: body, leaves: counted(leaves) });
    }

    await refuseSerializedObjects(body, HINT);

    expect(visits).to.equal(1 + depth * (2 + width));
  });

  it("needs no stack, and names the place also far down", async () => {
    const record = { lc: 1, type: "constructor", id: ["langchain", "evil"], kwargs: {} };
    let body: object = { list: [1, record] };
    for (let level = 0; level < 100_000; level++) body = { a: body };

    const failure = await failureOf(refuseSerializedObjects(body, HINT));

    expect(failure).to.include({ name: "ValidationError", status: 422 });
    const { loc } = failure.detail[0];
    expect(loc).to.have.length(1 + 100_000 + 2);
    expect([loc[0], loc[1], ...loc.slice(-2)]).to.deep.equal(["body", "a", "list", 1]);
  });
});
