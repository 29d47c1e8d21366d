import { expect } from "chai";
import { pino } from "pino";
import { type RevokeDeps, revokeDue } from "../../runtime/provisioner/revoke.ts";
import { failureOf } from "../support/failure.ts";

const ID = { namespace: "default", release: "poet" };

describe("generations of credentials that are due", () => {
  it("are revoked each by itself: one that can't be keeps none of the others alive", async () => {
    const revoked: number[] = [];
    const deps = {
      tokens: { disable: async () => {} },
      database: {
        async revoke(_agent: string, login: string) {
          if (login === "poet_1") throw new Error("some objects depend on it");
        },
      },
      registry: {
        revoked: async (_id: unknown, generation: number) => void revoked.push(generation),
      },
      marginMs: 0,
      logger: pino({ level: "silent" }),
    } as unknown as RevokeDeps;
    const generations = [1, 2, 3].map((generation) => ({
      generation,
      login: `poet_${generation}`,
      tokenHash: "hash",
      revokeInMs: generation === 3 ? null : 0,
    })) as unknown as Parameters<typeof revokeDue>[2];

    const error = await failureOf(revokeDue(ID, "poet", generations, deps));

    expect(error.message).to.include("revoke a database login");
    expect(revoked).to.deep.equal([2]);
  });
});
