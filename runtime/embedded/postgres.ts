import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import pg from "pg";
import { UserError } from "../common/errors.ts";
import { freePort } from "./free-port.ts";
import { startFailure, tailLog } from "./logs.ts";
import { type PreparedData, prepareData } from "./postgres-data.ts";
import { stopLeftoverPostgres } from "./postgres-leftover.ts";
import { type Service, settledWithin, signalGroup, whenGone } from "./service.ts";
import { type OnWaiting, until } from "./wait.ts";

export const SUPERUSER = "postgres";
const HOST = "127.0.0.1";
/** A start after a crash replays the write-ahead log, which takes its time. */
const START_PATIENCE_MS = 120_000;
/** How long the leftover of a crashed server may hold the data before we give up. */
const ATTEMPTS = 5;
const CONNECT_MS = 2_000;

/**
 * Runs PostgreSQL and ends it when standard input does: the other end of that pipe is ours, so a
 * `kill -9` of this process, too, stops the server in good order.
 */
const WATCHDOG = `
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
( read -r line <&3; kill -INT "$server" ) &
guard=$!
exec 3<&-
wait "$server"
code=$?
kill "$guard" 2>/dev/null
exit "$code"
`;

/** SQLSTATE "the database system is starting up". */
const STARTING_UP = "57P03";
const WRONG_PASSWORD = "28P01";

export interface PostgresOptions {
  /** The data directory (PGDATA). */
  directory: string;
  logFile: string;
  /** Of the role `postgres`. */
  password: string;
  /** Ends the making of a new data directory. */
  signal?: AbortSignal;
}

/** The PostgreSQL of the embedded way: real, durable, on a free port of 127.0.0.1. */
export class Postgres implements Service {
  /** e.g. `PostgreSQL 18` */
  readonly title: string;
  readonly logFile: string;
  readonly #options: PostgresOptions;
  readonly #data: PreparedData;
  #port: number | undefined;
  #process: ChildProcess | undefined;
  #death: Promise<string> = new Promise(() => {});

  private constructor(options: PostgresOptions, data: PreparedData) {
    this.title = `PostgreSQL ${data.majorVersion}`;
    this.logFile = options.logFile;
    this.#options = options;
    this.#data = data;
  }

  /**
   * Makes the data directory where there is none yet.
   *
   * @throws UserError where the machine or the data do not allow it.
   */
  static async prepare(options: PostgresOptions): Promise<Postgres> {
    return new Postgres(options, await prepareData(options));
  }

  /** The connection URL of a role, once started. */
  url(database: string, role: string, password: string): string {
    return `postgresql://${role}:${encodeURIComponent(password)}@${HOST}:${this.#port}/${database}`;
  }

  adminUrl(database: string): string {
    return this.url(database, SUPERUSER, this.#options.password);
  }

  async start(onWaiting: OnWaiting): Promise<void> {
    await stopLeftoverPostgres(this.#options.directory);
    const chosenBefore = this.#port !== undefined;
    for (let attempt = 1; ; attempt++) {
      this.#port = chosenBefore ? this.#port : await freePort();
      this.#spawn();
      const failure = await this.#untilAnswering(onWaiting);
      if (failure === undefined) return;
      await this.stop(1_000);
      if (attempt === ATTEMPTS || !(await this.#mayPass())) {
        throw await startFailure(this.title, failure, this.logFile);
      }
    }
  }

  death(): Promise<string> {
    return this.#death;
  }

  async stop(graceMs: number): Promise<void> {
    this.#process?.stdin?.end();
    if (await settledWithin(this.#death, graceMs)) return;
    this.kill();
    // The watchdog leaves at once, the server when its processes are gone.
    await stopLeftoverPostgres(this.#options.directory);
  }

  /** Stops without a checkpoint; the next start recovers from the write-ahead log. */
  kill(): void {
    signalGroup(this.#process, "SIGQUIT");
  }

  #spawn(): void {
    const { launch, binaries } = this.#data;
    const server = [binaries.postgres, "-D", this.#options.directory, ...settings(this.#port ?? 0)];
    const watchdog = ["sh", "-c", WATCHDOG, "postgres-watchdog", ...server];
    const [command = "", ...args] = [...launch.prefix, ...watchdog];
    const log = openSync(this.logFile, "a", 0o600);
    const child = spawn(command, args, {
      ...launch.account,
      cwd: "/",
      // A session of its own: Ctrl-C in the terminal is for us, who stop things in order.
      detached: true,
      env: { PATH: process.env.PATH, TZ: "UTC", LC_ALL: "C" },
      stdio: ["pipe", log, log],
    });
    closeSync(log);
    // The server may be gone before we say that it should go.
    child.stdin?.on("error", () => {});
    this.#process = child;
    this.#death = whenGone(child);
  }

  /** @returns why it does not, or undefined once it answers. */
  async #untilAnswering(onWaiting: OnWaiting): Promise<string | undefined> {
    let died: string | undefined;
    void this.#death.then((reason) => {
      died = reason;
    });
    const answer = await until(
      async () => died ?? ((await this.#answers()) ? "" : undefined),
      START_PATIENCE_MS,
      (waitedMs) => onWaiting("to accept connections", waitedMs),
    );
    if (answer === undefined) {
      return `it did not accept connections within ${START_PATIENCE_MS / 1000} s`;
    }
    return answer === "" ? undefined : answer;
  }

  async #answers(): Promise<boolean> {
    const client = new pg.Client({
      connectionString: this.adminUrl("postgres"),
      connectionTimeoutMillis: CONNECT_MS,
    });
    client.on("error", () => {});
    try {
      await client.connect();
      return true;
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === WRONG_PASSWORD) throw wrongPassword(this.#options.directory);
      if (code === undefined || code === STARTING_UP || !isSqlState(code)) return false;
      throw error;
    } finally {
      await client.end();
    }
  }

  /** True where trying again helps: the port was taken meanwhile, or old backends still leave. */
  async #mayPass(): Promise<boolean> {
    const log = await tailLog(this.logFile, 10);
    return /Address already in use|pre-existing shared memory block/.test(log);
  }
}

function isSqlState(code: unknown): boolean {
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith("E");
}

function wrongPassword(directory: string): UserError {
  return new UserError(
    "wrong_database_password",
    `The database in ${directory} does not accept the password in secrets.json.`,
    "The two belong together: restore the secrets.json that was made with this data, or start with a new --data directory.",
  );
}

function settings(port: number): string[] {
  const values = {
    port: String(port),
    listen_addresses: HOST,
    // Paths of sockets have a limit of 107 bytes, which a data directory may well exceed.
    unix_socket_directories: "",
    max_connections: "100",
    shared_buffers: "64MB",
    jit: "off",
    fsync: "on",
    synchronous_commit: "on",
    password_encryption: "scram-sha-256",
  };
  return Object.entries(values).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}
