import { expect } from "chai";
import { pino } from "pino";
import { createPool } from "../../runtime/common/postgres.ts";
import { type Candidate, standForLeader } from "../../runtime/provisioner/leader.ts";
import { prepareSchema } from "../../runtime/provisioner/schema.ts";
import { eventually } from "../support/eventually.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import { createProvisionerRole, query } from "../support/provisioner.ts";

const logger = pino({ level: "silent" });

/** A replica, and how often it works at this moment and did in all. */
interface Replica {
  candidate: Candidate;
  working: number;
  terms: number;
}

describe("Two replicas of the provisioner", () => {
  let postgres: TestPostgres;
  let databaseUrl: string;
  let replicas: Replica[];

  before(async () => {
    postgres = await startTestPostgres();
    databaseUrl = await createProvisionerRole(postgres);
    const pool = createPool(databaseUrl, logger, { applicationName: "test" });
    await Promise.all([
      prepareSchema(databaseUrl, pool, logger),
      prepareSchema(databaseUrl, pool, logger),
    ]);
    await pool.end();
  });
  after(() => postgres.stop());
  beforeEach(() => {
    replicas = [];
  });
  afterEach(() => Promise.all(replicas.map(({ candidate }) => candidate.stop())));

  function stand(): Replica {
    const counts = { working: 0, terms: 0 };
    const candidate = standForLeader({
      databaseUrl,
      logger,
      heartbeatMs: 50,
      work(signal) {
        counts.working += 1;
        counts.terms += 1;
        return new Promise((resolve) => {
          signal.addEventListener("abort", () => {
            counts.working -= 1;
            resolve();
          });
        });
      },
    });
    const replica = Object.assign(counts, { candidate });
    replicas.push(replica);
    return replica;
  }

  const leaders = () => replicas.filter(({ candidate }) => candidate.standing === "leader");
  const waiting = () => replicas.filter(({ candidate }) => candidate.standing === "standby");

  async function bothStand(): Promise<[Replica, Replica]> {
    stand();
    stand();
    // For a moment both wait: the one that gets the lock has just asked for it.
    await eventually(
      "one leads, one waits",
      () => leaders().length === 1 && waiting().length === 1,
    );
    const [leader, standby] = [leaders()[0], waiting()[0]];
    if (leader === undefined || standby === undefined) throw new Error("the leader lost its lock");
    return [leader, standby];
  }

  it("one works, the other waits", async () => {
    const [leader, standby] = await bothStand();
    expect([leader.working, standby.working]).to.deep.equal([1, 0]);
  });

  it("the other takes over when the first stops, after its work has ended", async () => {
    const [leader, standby] = await bothStand();
    await leader.candidate.stop();
    expect(leader.working).to.equal(0);
    await eventually("the other works", () => standby.working === 1);
  });

  it("the other takes over when the first one's session is ended, and the first waits", async () => {
    const [leader, standby] = await bothStand();
    await query(
      postgres.adminUrl,
      `SELECT pg_terminate_backend(l.pid) FROM pg_locks l
       WHERE l.relation = 'provisioner.leader'::regclass AND l.granted`,
    );
    await eventually("the other works", () => standby.working === 1);
    await eventually("the first waits", () => leader.candidate.standing === "standby");
    expect(leader.working).to.equal(0);
  });

  it("one works again after the database restarted", async () => {
    await bothStand();
    await postgres.restart("immediate");
    await eventually("one works", () => leaders().length === 1 && waiting().length === 1);
    expect(replicas.map(({ working }) => working).sort()).to.deep.equal([0, 1]);
  });

  it("an agent cannot keep the lock from them", async () => {
    const [leader] = await bothStand();
    const url = new URL(databaseUrl);
    url.username = "worker";
    url.password = "worker";
    const failure = await query(
      url.href,
      "BEGIN; LOCK TABLE provisioner.leader IN ACCESS SHARE MODE",
    ).catch((error: unknown) => error);
    expect(failure).to.have.property("code", "42501");
    expect(leader.working).to.equal(1);
  });

  it("a leader holds back no clean-up of the database", async () => {
    await bothStand();
    const { rows } = await query(
      postgres.adminUrl,
      `SELECT backend_xid, backend_xmin FROM pg_stat_activity
       WHERE application_name = 'provisioner-leader' AND state = 'idle in transaction'`,
    );
    expect(rows).to.deep.equal([{ backend_xid: null, backend_xmin: null }]);
  });
});
