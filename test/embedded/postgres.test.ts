import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import pg from "pg";
import { bootstrapDatabase, closeMigrationTable } from "../../runtime/embedded/database.ts";
import { Postgres } from "../../runtime/embedded/postgres.ts";
import { startTestPostgres, type TestPostgres, type TestRole } from "../support/postgres.ts";

const INSUFFICIENT_PRIVILEGE = "42501";

describe("the embedded PostgreSQL", () => {
  let postgres: TestPostgres;

  before(async () => {
    postgres = await startTestPostgres();
    await query("gateway", "CREATE TABLE span (span_id text PRIMARY KEY)");
    await query(
      "gateway",
      "CREATE TABLE schema_migration (id serial, name text, run_on timestamp)",
    );
    await query("model_gateway", "CREATE TABLE consumer_token (token_hash text)");
    await query("worker", "CREATE TABLE run (run_id text)");
    await closeMigrationTable(postgres.adminUrl);
  });

  after(() => postgres.stop());

  const query = (role: TestRole, sql: string) => queryOnce(postgres.url(role), sql);
  const refusal = async (role: TestRole, sql: string) => {
    const outcome = await query(role, sql).catch((error) => error.code);
    return typeof outcome === "string" ? outcome : "allowed";
  };

  it("is durable: nothing about writing to disk is turned off", async () => {
    for (const setting of ["fsync", "synchronous_commit", "full_page_writes"]) {
      expect(await query("postgres", `SHOW ${setting}`)).to.deep.equal([{ [setting]: "on" }]);
    }
  });

  it("listens on this machine only, and asks every role for its password", async () => {
    expect(await query("postgres", "SHOW listen_addresses")).to.deep.equal([
      { listen_addresses: "127.0.0.1" },
    ]);
    const url = postgres.url("worker").replace(":worker@", ":wrong@");

    const outcome = await queryOnce(url, "SELECT 1").catch((error) => error.code);

    expect(outcome).to.equal("28P01");
  });

  it("gives each role a schema that its statements mean", async () => {
    const schemas = { gateway: "tracing", model_gateway: "model_gateway", worker: "worker" };
    for (const [role, schema] of Object.entries(schemas)) {
      const [row] = await query(role as TestRole, "SELECT current_schema() AS schema");
      expect(row).to.deep.equal({ schema });
    }
  });

  it("lets all programs add spans, and only the gateway read them", async () => {
    await query("worker", "INSERT INTO tracing.span VALUES ('a') ON CONFLICT DO NOTHING");
    await query("model_gateway", "INSERT INTO tracing.span VALUES ('b') ON CONFLICT DO NOTHING");

    expect(await refusal("worker", "SELECT * FROM tracing.span")).to.equal(INSUFFICIENT_PRIVILEGE);
    expect(await query("gateway", "SELECT count(*)::int FROM span")).to.deep.equal([{ count: 2 }]);
  });

  for (const [role, sql] of [
    ["worker", "SELECT * FROM model_gateway.consumer_token"],
    ["worker", "INSERT INTO model_gateway.consumer_token VALUES ('mine')"],
    ["worker", "DELETE FROM tracing.span"],
    ["worker", "UPDATE tracing.span SET span_id = 'forged'"],
    ["worker", "INSERT INTO tracing.schema_migration (name) VALUES ('forged')"],
    ["worker", "CREATE TABLE public.mine (id int)"],
    ["worker", "CREATE TABLE tracing.mine (id int)"],
    ["worker", "CREATE SCHEMA mine"],
    ["worker", "CREATE ROLE mine"],
    ["worker", "SET ROLE gateway"],
    ["worker", "COPY (SELECT 1) TO PROGRAM 'true'"],
    ["worker", "SELECT pg_read_file('/etc/passwd')"],
    ["model_gateway", "SELECT * FROM worker.run"],
    ["gateway", "SELECT * FROM worker.run"],
    ["gateway", "SELECT * FROM model_gateway.consumer_token"],
  ] as const) {
    it(`refuses to the ${role}: ${sql}`, async () => {
      expect(await refusal(role, sql)).to.equal(INSUFFICIENT_PRIVILEGE);
    });
  }

  it("lets no program into the superuser's database", async () => {
    const url = postgres.url("worker").replace(/\/platform$/, "/postgres");

    const outcome = await queryOnce(url, "SELECT 1").catch((error) => error.code);

    expect(outcome).to.equal(INSUFFICIENT_PRIVILEGE);
  });

  it("keeps what was committed over a crash", async () => {
    await query("worker", "INSERT INTO run VALUES ('kept')");

    await postgres.restart("immediate");

    expect(await query("worker", "SELECT * FROM run")).to.deep.equal([{ run_id: "kept" }]);
  });

  it("may be brought up to date any number of times", async () => {
    const passwords = { gateway: "new", model_gateway: "new", worker: "new" };
    const adminUrl = (database: string) => postgres.adminUrl.replace(/\/platform$/, `/${database}`);

    await bootstrapDatabase(adminUrl, passwords);
    await bootstrapDatabase(adminUrl, passwords);

    const url = postgres.url("worker").replace(":worker@", ":new@");
    expect(await queryOnce(url, "SELECT 1 AS one")).to.deep.equal([{ one: 1 }]);
  });
});

describe("a data directory of PostgreSQL", () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "platform-test-"));
  });

  afterEach(() => rm(directory, { recursive: true, force: true }));

  const prepare = (parent: string, password = "correct-horse-battery") =>
    Postgres.prepare({
      directory: join(parent, "postgres"),
      logFile: join(directory, "postgres.log"),
      password,
    });

  it("may lie where no other account can enter", async () => {
    const closed = join(directory, "closed");
    await mkdir(join(closed, "data"), { recursive: true });
    await chmod(closed, 0o700);

    const postgres = await prepare(join(closed, "data"));
    await postgres.start(() => {});

    expect(await queryOnce(postgres.adminUrl("postgres"), "SELECT 1 AS one")).to.have.length(1);
    await postgres.stop(10_000);
  });

  it("gets rid of a lock file whose process is something else now", async () => {
    const postgres = await prepare(directory);
    const lock = join(directory, "postgres", "postmaster.pid");
    await writeFile(lock, `${process.pid}\n${join(directory, "postgres")}\n0\n1\n\n127.0.0.1\n`);

    await postgres.start(() => {});

    expect(await readFile(lock, "utf8")).to.not.match(new RegExp(`^${process.pid}\n`));
    await postgres.stop(10_000);
  });

  it("is taken over from a PostgreSQL that an earlier start left running", async () => {
    const earlier = await prepare(directory);
    await earlier.start(() => {});
    const died = earlier.death();

    const later = await prepare(directory);
    await later.start(() => {});

    expect(await died).to.include("exited");
    await later.stop(10_000);
  });

  it("made by another release is refused, and stays as it is", async () => {
    await prepare(directory);
    const version = join(directory, "postgres", "PG_VERSION");
    await writeFile(version, "17\n");

    const error = await prepare(directory).catch((reason) => reason);

    expect(error.code).to.equal("postgres_version");
    expect(error.message).to.include("17");
    expect(await readFile(version, "utf8")).to.equal("17\n");
  });

  it("of other secrets is refused with a word about which file is wrong", async () => {
    await prepare(directory);
    const postgres = await prepare(directory, "another-password-entirely");

    const error = await postgres.start(() => {}).catch((reason) => reason);

    expect(error.code).to.equal("wrong_database_password");
    expect(error.message).to.include("secrets.json");
    await postgres.stop(10_000);
  });
});

async function queryOnce(url: string, sql: string): Promise<object[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}
