import { expect } from "chai";
import { readEnvironment } from "../../runtime/common/configuration.ts";
import { configuration } from "../../runtime/worker/configuration.ts";

const NEEDED = {
  DATABASE_URL: "postgres://worker@127.0.0.1/platform",
  ASSERTION_PUBLIC_KEY: "key",
};

const read = (more: Record<string, string>) =>
  readEnvironment(configuration, { ...NEEDED, ...more });

describe("a worker's environment", () => {
  it("needs no Redis", () => {
    const { REDIS_URL, REDIS_PREFIX, DATABASE_SCHEMA } = read({});
    expect([REDIS_URL, REDIS_PREFIX, DATABASE_SCHEMA]).to.deep.equal([
      undefined,
      undefined,
      "worker",
    ]);
  });

  it("names a Redis with its prefix, with or without TLS", () => {
    for (const url of ["redis://agent:secret@cache:6379", "rediss://cache:6380"]) {
      expect(read({ REDIS_URL: url, REDIS_PREFIX: "aegra:assistant" }).REDIS_URL).to.equal(url);
    }
  });

  it("says which half of Redis is missing", () => {
    expect(() => read({ REDIS_URL: "redis://cache" })).to.throw("REDIS_PREFIX is not set");
    expect(() => read({ REDIS_PREFIX: "aegra:a" })).to.throw("REDIS_URL is not set");
  });

  for (const [what, variables] of [
    ["a URL that is none of Redis", { REDIS_URL: "http://cache", REDIS_PREFIX: "aegra:a" }],
    [
      "a prefix that stands for others too",
      { REDIS_URL: "redis://cache", REDIS_PREFIX: "aegra:*" },
    ],
    ["a schema that needs quotes", { DATABASE_SCHEMA: 'a"; DROP SCHEMA worker; --' }],
    ["a schema whose channel would be too long", { DATABASE_SCHEMA: "a".repeat(56) }],
  ] as const) {
    it(`refuses ${what}`, () => {
      expect(() => read(variables)).to.throw(
        /not valid: (REDIS_URL|REDIS_PREFIX|DATABASE_SCHEMA):/,
      );
    });
  }
});
