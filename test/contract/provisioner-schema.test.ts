import { expect } from "chai";
import { pino } from "pino";
import { createPool } from "../../runtime/common/postgres.ts";
import { prepareSchema } from "../../runtime/provisioner/schema.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";

const REPLICAS = 8;
const logger = pino({ level: "silent" });

describe("replicas of the provisioner that start at the same moment", () => {
  let postgres: TestPostgres;
  before(async () => {
    postgres = await startTestPostgres();
  });
  after(() => postgres?.stop());

  it("make one schema together, whoever is first", async () => {
    const url = (await postgres.createDatabase()).url();
    const pools = Array.from({ length: REPLICAS }, () =>
      createPool(url, logger, { max: 1, applicationName: "test" }),
    );
    try {
      // So that nobody is late because of a connection.
      await Promise.all(pools.map((pool) => pool.query("SELECT")));
      await Promise.all(pools.map((pool) => prepareSchema(url, pool, logger)));
      const [pool] = pools;
      const tables = await pool?.query("SELECT FROM provisioner.agent");
      expect(tables?.rowCount).to.equal(0);
    } finally {
      await Promise.all(pools.map((pool) => pool.end()));
    }
  });
});
