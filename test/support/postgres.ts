import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  bootstrapDatabase,
  DATABASE,
  type RolePasswords,
} from "../../runtime/embedded/database.ts";
import { Postgres, SUPERUSER } from "../../runtime/embedded/postgres.ts";

const PASSWORDS: RolePasswords = { gateway: "gateway", model_gateway: "model", worker: "worker" };

/** A role of the platform, or the superuser. */
export type TestRole = keyof RolePasswords | typeof SUPERUSER;

/** One database with the platform's roles, schemas and privileges, as the embedded way makes it. */
export interface TestDatabase {
  /** The connection URL of a role; the superuser's where none is named. */
  url(role?: TestRole): string;
}

/** A PostgreSQL of one test file: its own data, its own port, gone with {@link TestPostgres.stop}. */
export interface TestPostgres extends TestDatabase {
  adminUrl: string;
  /** Another database on the same server, so that tests don't see each other's rows. */
  createDatabase(): Promise<TestDatabase>;
  /**
   * Stops the server and starts it again on the same port and data.
   *
   * @param mode `fast` closes sessions in order; `immediate` is a crash.
   * @param meanwhile Called while the server is down.
   */
  restart(mode?: "fast" | "immediate", meanwhile?: () => Promise<void>): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a PostgreSQL as the embedded way does (about 2 s). */
export async function startTestPostgres(): Promise<TestPostgres> {
  const directory = await mkdtemp(join(tmpdir(), "platform-test-"));
  // Started by root, PostgreSQL runs under another account, which has to pass through here.
  await chmod(directory, 0o711);
  const postgres = await Postgres.prepare({
    directory: join(directory, "postgres"),
    logFile: join(directory, "postgres.log"),
    password: randomBytes(12).toString("hex"),
  });
  const start = () => postgres.start(() => {});
  await start();

  let databases = 0;
  const open = async (name: string): Promise<TestDatabase> => {
    await bootstrapDatabase((database) => postgres.adminUrl(database), PASSWORDS, name);
    return {
      url(role = SUPERUSER) {
        return role === SUPERUSER
          ? postgres.adminUrl(name)
          : postgres.url(name, role, PASSWORDS[role]);
      },
    };
  };
  const first = await open(DATABASE);
  return {
    ...first,
    adminUrl: first.url(),
    createDatabase() {
      databases += 1;
      return open(`test_${databases}`);
    },
    async restart(mode = "fast", meanwhile = async () => {}) {
      if (mode === "immediate") postgres.kill();
      await postgres.stop(10_000);
      await meanwhile();
      await start();
    },
    async stop() {
      await postgres.stop(10_000);
      await rm(directory, { recursive: true, force: true });
    },
  };
}
