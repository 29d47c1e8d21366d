import { DEV_TENANT, DEV_TOKEN } from "../common/dev-token.ts";
import { type ConsoleOutput, seconds } from "./console-output.ts";
import { type DataPaths, logFile } from "./data-directory.ts";
import {
  bootstrapDatabase,
  closeMigrationTable,
  DATABASE,
  seedConsumerTokens,
} from "./database.ts";
import { keepRunning } from "./keep-running.ts";
import { rotateLog } from "./logs.ts";
import { Postgres } from "./postgres.ts";
import { DRAIN_MS, type Programs } from "./programs.ts";
import { GivesUp, NeverGivesUp } from "./restart-policy.ts";
import type { Secrets } from "./secrets.ts";
import { type Service, settledWithin } from "./service.ts";

/** After its drain a program still closes its connections. */
const PROGRAM_STOP_MS = DRAIN_MS + 300;
/** By then nobody calls the model gateway or the database any more. */
const MODEL_GATEWAY_STOP_MS = 700;
const POSTGRES_STOP_MS = 1_000;

export interface PlatformOptions {
  paths: DataPaths;
  secrets: Secrets;
  output: ConsoleOutput;
  describePrograms(postgres: Postgres): Programs;
}

/** PostgreSQL and the three programs, from start to stop. */
export class Platform {
  readonly #options: PlatformOptions;
  readonly #stopping = new AbortController();
  #postgres: Postgres | undefined;
  #programs: Programs | undefined;
  #starting: Promise<unknown> = Promise.resolve();

  constructor(options: PlatformOptions) {
    this.#options = options;
  }

  /** @throws UserError that names what did not come up, and why. */
  start(): Promise<void> {
    const started = this.#start(this.#stopping.signal);
    this.#starting = started.catch(() => {});
    return started;
  }

  /**
   * Starts again what dies, the worker for ever: agents' code may end it. Comes back once the platform is being
   * stopped.
   *
   * @throws UserError where another one dies too often.
   */
  async keepRunning(): Promise<void> {
    const { output } = this.#options;
    await Promise.all(
      this.#services().map((service) => {
        const isOfAgents = service === this.#programs?.worker;
        const meanwhile = isOfAgents ? "; until then calls of agents get 502" : "";
        const policy = isOfAgents ? new NeverGivesUp() : new GivesUp();
        return keepRunning(service, this.#stopping.signal, policy, {
          died: ({ title, logFile: log }, reason, pauseMs) =>
            output.warn(
              `${title}: ${reason}; starting it again in ${seconds(pauseMs)}${meanwhile} (log: ${log})`,
            ),
          back: ({ title }, tookMs) => output.done(`${title} is back (${seconds(tookMs)})`),
        });
      }),
    );
  }

  /**
   * Stops everything in the order in which nothing is lost, within 5 s. Gateway and worker leave
   * together: the gateway's calls end when the worker's runs do.
   */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const { gateway, worker, modelGateway } = this.#programs ?? {};
    await Promise.all([gateway?.stop(PROGRAM_STOP_MS), worker?.stop(PROGRAM_STOP_MS)]);
    await modelGateway?.stop(MODEL_GATEWAY_STOP_MS);
    await this.#postgres?.stop(POSTGRES_STOP_MS);
    await settledWithin(this.#starting, POSTGRES_STOP_MS);
  }

  /** Ends everything at once, for those who can't wait. */
  kill(): void {
    for (const service of this.#services()) service.kill();
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { paths, secrets, output } = this.#options;
    for (const program of ["postgres", "model-gateway", "worker", "gateway"]) {
      await rotateLog(logFile(paths, program));
    }
    const postgres = await output.step("PostgreSQL", async (wait) => {
      const prepared = await Postgres.prepare({
        directory: paths.postgres,
        logFile: logFile(paths, "postgres"),
        password: secrets.databasePasswords.postgres,
        signal,
      });
      signal.throwIfAborted();
      this.#postgres = prepared;
      await prepared.start(wait);
      await bootstrapDatabase((database) => prepared.adminUrl(database), secrets.databasePasswords);
      return prepared;
    });
    const adminUrl = postgres.adminUrl(DATABASE);

    const programs = this.#options.describePrograms(postgres);
    this.#programs = programs;
    await this.#startProgram(programs.modelGateway, signal);
    await seedConsumerTokens(adminUrl, [
      { token: DEV_TOKEN, tenant: DEV_TENANT },
      { token: secrets.workerToken, tenant: DEV_TENANT },
    ]);
    await this.#startProgram(programs.worker, signal);
    await this.#startProgram(programs.gateway, signal);
    await closeMigrationTable(adminUrl);
  }

  async #startProgram(program: Service, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await this.#options.output.step(program.title, async (wait) => {
      await program.start(wait);
      return program;
    });
  }

  #services(): Service[] {
    const programs = Object.values(this.#programs ?? {});
    return this.#postgres === undefined ? programs : [this.#postgres, ...programs];
  }
}
