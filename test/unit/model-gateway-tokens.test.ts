import { expect } from "chai";
import { pino } from "pino";
import { hashToken } from "../../runtime/common/identity.ts";
import { createConsumerTokens } from "../../runtime/model-gateway/consumer-tokens.ts";
import type { SelectTokens } from "../../runtime/model-gateway/token-lookup.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";

const GOOD = { tenant: "acme", agent: "assistant" };
const lost = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });

/** Consumer tokens over a stand-in database, with a clock of their own. */
function setUp() {
  const rows = new Map([[hashToken("good"), GOOD]]);
  const batches: number[] = [];
  const logs: string[] = [];
  let now = 1_000_000;
  let answer: SelectTokens = async (hashes) =>
    new Map([...rows].filter(([hash]) => hashes.includes(hash)));
  const standard = answer;
  const tokens = createConsumerTokens({
    select: (hashes) => {
      batches.push(hashes.length);
      return answer(hashes);
    },
    logger: pino({ level: "warn" }, { write: (line: string) => void logs.push(line) }),
    now: () => now,
    ttlMs: 10_000,
    staleMs: 300_000,
    lateMs: 1,
    patienceMs: 200,
  });
  return {
    tokens,
    rows,
    batches,
    logs,
    pass: (ms: number) => {
      now += ms;
    },
    database: (how: "answers" | SelectTokens) => {
      answer = how === "answers" ? standard : how;
    },
  };
}

const goesAway: SelectTokens = async () => {
  throw lost;
};

describe("consumer tokens", () => {
  it("are asked for once in ten seconds", async () => {
    const { tokens, batches, pass } = setUp();
    for (let call = 0; call < 5; call++) expect(await tokens.find("good")).to.equal(GOOD);
    expect(batches).to.have.length(1);
    pass(10_000);
    await tokens.find("good");
    expect(batches).to.have.length(2);
  });

  describe("while the database is away", () => {
    it("go on for five minutes if they were good, and no longer", async () => {
      const { tokens, database, pass, logs, batches } = setUp();
      await tokens.find("good");
      database(goesAway);
      pass(299_999);
      expect(await tokens.find("good")).to.equal(GOOD);
      expect(await tokens.find("good")).to.equal(GOOD);
      expect(batches, "it is not asked at every call").to.have.length(2);
      expect(logs).to.have.length(1);
      pass(1);
      expect((await failureOf(tokens.find("good"))).status).to.equal(503);
    });

    it("go on where it says nothing at all, and what it says late counts", async () => {
      const { tokens, database, pass } = setUp();
      await tokens.find("good");
      const gate = Promise.withResolvers<Awaited<ReturnType<SelectTokens>>>();
      database(() => gate.promise);
      pass(10_000);
      expect(await tokens.find("good")).to.equal(GOOD);
      gate.resolve(new Map());
      database(goesAway);
      await eventually("it is forgotten", async () => {
        const outcome = await tokens.find("good").catch((error) => error.status);
        return outcome === 503;
      });
    });

    it("are refused with 503 if nobody knows them", async () => {
      const { tokens, database } = setUp();
      database(goesAway);
      expect((await failureOf(tokens.find("good"))).status).to.equal(503);
    });

    it("do not come back if they were revoked before", async () => {
      const { tokens, database, pass, rows } = setUp();
      await tokens.find("good");
      rows.clear();
      database(goesAway);
      pass(10_000);
      expect(await tokens.find("good"), "nobody can know").to.equal(GOOD);
      database("answers");
      pass(1_000);
      expect(await tokens.find("good")).to.equal(undefined);
      database(goesAway);
      expect((await failureOf(tokens.find("good"))).status).to.equal(503);
    });
  });

  it("a question that the database refuses is no reason to go on", async () => {
    const { tokens, database, pass } = setUp();
    await tokens.find("good");
    database(async () => {
      throw new Error("permission denied");
    });
    pass(10_000);
    expect((await failureOf(tokens.find("good"))).message).to.equal("permission denied");
  });

  describe("that are invented", () => {
    it("push no good one out, however many come", async () => {
      const { tokens, batches } = setUp();
      await tokens.find("good");
      for (let round = 0; round < 15; round++) {
        const flood = Array.from({ length: 1_000 }, (_, n) =>
          tokens.find(`invented-${round}-${n}`),
        );
        expect(new Set(await Promise.all(flood))).to.deep.equal(new Set([undefined]));
      }
      const before = batches.length;
      expect(await tokens.find("good")).to.equal(GOOD);
      expect(batches).to.have.length(before);
    });

    it("are one statement at a time for the database, and a 503 past a thousand that wait", async () => {
      const { tokens, database, batches } = setUp();
      const gate = Promise.withResolvers<Awaited<ReturnType<SelectTokens>>>();
      database(() => gate.promise);
      const flood = Array.from({ length: 1_500 }, (_, n) =>
        tokens.find(`invented-${n}`).catch((error) => error.status),
      );
      const again = tokens.find("invented-7");
      expect(batches).to.deep.equal([1]);
      database("answers");
      gate.resolve(new Map());
      const answers = await Promise.all(flood);
      expect(batches).to.deep.equal([1, 1_000]);
      expect(answers.filter((status) => status === 503)).to.have.length(499);
      expect(await again).to.equal(undefined);
    });

    it("hold up no good one", async () => {
      const { tokens, database, pass } = setUp();
      await tokens.find("good");
      const gate = Promise.withResolvers<Awaited<ReturnType<SelectTokens>>>();
      database(() => gate.promise);
      const invented = tokens.find("invented");
      database("answers");
      pass(10_000);
      expect(await tokens.find("good")).to.equal(GOOD);
      gate.resolve(new Map());
      await invented;
    });
  });

  it("a new token works at once, though it was asked for before it was there", async () => {
    const { tokens, rows } = setUp();
    expect(await tokens.find("new")).to.equal(undefined);
    rows.set(hashToken("new"), GOOD);
    expect(await tokens.find("new")).to.equal(GOOD);
  });
});
