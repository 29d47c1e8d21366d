import { hashToken } from "../../runtime/common/identity.ts";
import { AgentDeployments } from "./agent-deployment.ts";
import { eventually } from "./eventually.ts";
import { KubernetesApi } from "./kubernetes-api.ts";
import { startTestPostgres, type TestPostgres } from "./postgres.ts";
import {
  createProvisionerRole,
  query,
  RecordedRedisUsers,
  startProvisioner,
  type TestProvisioner,
  type TestProvisionerOptions,
} from "./provisioner.ts";

/** The environment that an agent is given. */
export type AgentEnvironment = Record<string, string>;

/** A database, an API server and provisioners, made anew for each test of a file. */
export class Provisioning {
  api = new KubernetesApi();
  agents = new AgentDeployments(this.api);
  redis = new RecordedRedisUsers();
  adminUrl = "";
  #postgres: TestPostgres | undefined;
  #running: TestProvisioner[] = [];

  /** Installs itself in the hooks of a `describe`. */
  static install(): Provisioning {
    const provisioning = new Provisioning();
    before(async () => {
      provisioning.#postgres = await startTestPostgres();
      provisioning.adminUrl = await createProvisionerRole(provisioning.#postgres);
    });
    beforeEach(() => provisioning.#begin());
    afterEach(() => provisioning.#end());
    after(() => provisioning.#postgres?.stop());
    return provisioning;
  }

  /** The superuser's URL. */
  get superuserUrl(): string {
    return this.#postgres?.adminUrl ?? "";
  }

  async start(options: Partial<TestProvisionerOptions> = {}): Promise<TestProvisioner> {
    const { api, adminUrl, redis } = this;
    const provisioner = await startProvisioner({ api, adminUrl, redis, ...options });
    this.#running.push(provisioner);
    return provisioner;
  }

  /** The agent's environment once it is there, and differs from an earlier one. */
  async environment(
    name: string,
    before?: AgentEnvironment,
    namespace?: string,
  ): Promise<AgentEnvironment> {
    let found: AgentEnvironment | undefined;
    await eventually(`the Secret of ${name}`, () => {
      found = this.agents.environment(name, namespace);
      return found !== undefined && found.DATABASE_URL !== before?.DATABASE_URL;
    });
    return found ?? {};
  }

  /** The messages of a Deployment's events, once there are so many with this reason. */
  async events(name: string, reason: string, times = 1, namespace?: string): Promise<string[]> {
    let messages: string[] = [];
    await eventually(`${times} event(s) ${reason} of ${name}`, () => {
      const events = this.agents.events(name, namespace).filter((one) => one.reason === reason);
      messages = events.map(({ message }) => String(message));
      return messages.length >= times;
    });
    return messages;
  }

  /** Whom the model gateway takes a token's bearer for. */
  async token(
    token = "",
  ): Promise<{ tenant: string; agent: string; disabled: boolean } | undefined> {
    const { rows } = await query(
      this.superuserUrl,
      `SELECT tenant, agent, disabled_at IS NOT NULL AS disabled
       FROM model_gateway.consumer_token WHERE token_hash = $1`,
      [hashToken(token)],
    );
    return rows[0];
  }

  /** Whether an agent's credentials get it into the database. */
  async canLogIn(environment: AgentEnvironment): Promise<boolean> {
    return query(environment.DATABASE_URL ?? "", "SELECT 1").then(
      () => true,
      () => false,
    );
  }

  /** Whether the cache takes the password that stands in an agent's environment. */
  hasRedisPassword({ DATABASE_SCHEMA = "", REDIS_URL = "" }: AgentEnvironment): boolean {
    const hash = hashToken(new URL(REDIS_URL).password);
    return this.redis.users.get(DATABASE_SCHEMA)?.passwordHashes.includes(hash) ?? false;
  }

  async #begin(): Promise<void> {
    this.api = new KubernetesApi();
    await this.api.start();
    this.agents = new AgentDeployments(this.api);
    this.redis = new RecordedRedisUsers();
    this.#running = [];
  }

  async #end(): Promise<void> {
    await Promise.all(this.#running.map((one) => one.stop()));
    await this.api.stop();
    await query(
      this.superuserUrl,
      "TRUNCATE provisioner.agent, provisioner.credential, provisioner.redis_prefix",
    );
  }
}
