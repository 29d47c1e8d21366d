import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import OpenAI from "openai";
import pg from "pg";
import { pino } from "pino";
import { generateAssertionKeys, hashToken } from "../../runtime/common/identity.ts";
import { createPool } from "../../runtime/common/postgres.ts";
import { createConsumerTokens } from "../../runtime/model-gateway/consumer-tokens.ts";
import { selectTokens } from "../../runtime/model-gateway/token-lookup.ts";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import { type StandInProvider, startProvider } from "../support/provider.ts";

const MAIN = fileURLToPath(new URL("../../runtime/model-gateway/main.ts", import.meta.url));
const TOKEN = "a-consumer-token";
const MESSAGES = [{ role: "user" as const, content: "Hello" }];
const MODEL = "openai/gpt-4o-mini";
const logger = pino({ level: "silent" });

/** A model gateway as a program of its own. */
interface Program {
  child: ChildProcess;
  client: OpenAI;
  output(): string;
}

function launch(environment: NodeJS.ProcessEnv): { child: ChildProcess; output(): string } {
  const child = fork(MAIN, { env: environment, silent: true });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (bytes: Buffer) => {
      output += bytes;
    });
  }
  return { child, output: () => output };
}

async function startProgram(environment: NodeJS.ProcessEnv): Promise<Program> {
  const { child, output } = launch(environment);
  const [message] = await Promise.race([
    once(child, "message"),
    once(child, "exit").then(() => {
      throw new Error(output());
    }),
  ]);
  const baseURL = `http://127.0.0.1:${message.listening}/v1`;
  return { child, output, client: new OpenAI({ baseURL, apiKey: TOKEN }) };
}

async function stop({ child }: Program): Promise<void> {
  const gone = once(child, "exit");
  if (child.kill("SIGTERM")) await gone;
}

describe("The model gateway with its database", () => {
  let postgres: TestPostgres;
  let provider: StandInProvider;
  let program: Program;
  let environment: NodeJS.ProcessEnv;

  before(async () => {
    postgres = await startTestPostgres();
    provider = await startProvider();
    environment = {
      PATH: process.env.PATH,
      PORT: "0",
      BIND_ADDRESSES: "127.0.0.1",
      DATABASE_URL: postgres.url("model_gateway"),
      ASSERTION_PUBLIC_KEY: generateAssertionKeys().publicKey,
      OPENAI_API_KEY: "sk-provider",
      OPENAI_BASE_URL: provider.url,
    };
    program = await startProgram(environment);
    await addToken(TOKEN, "acme", "assistant");
  });

  after(async () => {
    await stop(program);
    await provider.stop();
    await postgres.stop();
  });

  async function query<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []) {
    const client = new pg.Client({ connectionString: postgres.url("model_gateway") });
    await client.connect();
    try {
      return (await client.query<Row>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  const addToken = (token: string, tenant: string, agent: string | null) =>
    query("INSERT INTO consumer_token (token_hash, tenant, agent) VALUES ($1, $2, $3)", [
      hashToken(token),
      tenant,
      agent,
    ]);

  const countUsage = async () =>
    Number((await query<{ count: string }>("SELECT count(*) FROM usage"))[0]?.count);

  it("books each call on tenant and agent of the token", async () => {
    await program.client.chat.completions.create({ model: MODEL, messages: MESSAGES });
    await eventually("the usage is written", async () => (await countUsage()) === 1);

    const [row] = await query("SELECT * FROM usage");
    expect(row).to.include({
      tenant: "acme",
      agent: "assistant",
      provider: "openai",
      model: "gpt-4o-mini",
      input_tokens: 11,
      output_tokens: 7,
      estimated: false,
      status: 200,
      streamed: false,
      trace_id: null,
    });
    expect(row?.created_at).to.be.instanceOf(Date);
  });

  it("loses no answer and no usage when PostgreSQL crashes under load", async () => {
    const before = await countUsage();
    const calls = 200;
    let answered = 0;
    const callers = Array.from({ length: 8 }, async () => {
      for (let i = 0; i < calls / 8; i++) {
        const request = { model: MODEL, messages: MESSAGES };
        const stream = await program.client.chat.completions.create({ ...request, stream: true });
        await collect(stream);
        answered++;
      }
    });
    await eventually("some calls are through", () => answered > 20);

    await postgres.restart("immediate");
    await Promise.all(callers);

    expect(answered).to.equal(calls);
    await eventually("all usage is written", async () => (await countUsage()) === before + calls);
  });

  it("writes the usage that is still queued when it is told to stop", async () => {
    const before = await countUsage();
    const other = await startProgram(environment);
    const request = { model: MODEL, messages: MESSAGES };

    await Promise.all(
      Array.from({ length: 20 }, () => other.client.chat.completions.create(request)),
    );
    await stop(other);

    expect(other.child.exitCode).to.equal(0);
    expect(await countUsage()).to.equal(before + 20);
  });

  it("takes a new token at once, and refuses a disabled one soon", async () => {
    const pool = createPool(postgres.url("model_gateway"), logger, { applicationName: "test" });
    const tokens = createConsumerTokens({ select: selectTokens(pool), logger, ttlMs: 50 });

    expect(await tokens.find("new-token")).to.equal(undefined);
    await addToken("new-token", "globex", null);
    await eventually("it is known", async () => (await tokens.find("new-token")) !== undefined);
    expect(await tokens.find("new-token")).to.deep.equal({ tenant: "globex", agent: null });
    await query("UPDATE consumer_token SET disabled_at = now() WHERE tenant = 'globex'");
    await eventually("it is refused", async () => (await tokens.find("new-token")) === undefined);
    await pool.end();
  });

  it("goes on for the tokens it knows while PostgreSQL is down, and forgets a revoked one", async () => {
    const pool = createPool(postgres.url("model_gateway"), logger, { applicationName: "test" });
    const tokens = createConsumerTokens({
      select: selectTokens(pool),
      logger,
      ttlMs: 0,
      patienceMs: 500,
    });
    await addToken("kept", "initech", null);
    await addToken("revoked", "hooli", null);
    expect(await tokens.find("kept")).to.deep.equal({ tenant: "initech", agent: null });
    expect(await tokens.find("revoked")).to.deep.equal({ tenant: "hooli", agent: null });
    await query("UPDATE consumer_token SET disabled_at = now() WHERE tenant = 'hooli'");
    expect(await tokens.find("revoked")).to.equal(undefined);

    await postgres.restart("immediate", async () => {
      for (let call = 0; call < 3; call++) {
        expect(await tokens.find("kept")).to.deep.equal({ tenant: "initech", agent: null });
      }
      for (const token of ["revoked", "invented"]) {
        expect((await failureOf(tokens.find(token))).status, token).to.equal(503);
      }
    });
    await pool.end();
  });

  it("never stores a token itself", async () => {
    const stored = JSON.stringify(await query("SELECT * FROM consumer_token"));

    expect(stored).not.to.contain(TOKEN);
  });

  const wrong: [string, string, NodeJS.ProcessEnv][] = [
    ["without a database", "DATABASE_URL", { DATABASE_URL: "" }],
    ["with a wrong provider URL", "OPENAI_BASE_URL", { OPENAI_BASE_URL: "nowhere" }],
    ["with a default model of no provider", "DEFAULT_LLM_MODEL", { DEFAULT_LLM_MODEL: "x/y" }],
  ];
  for (const [how, name, variables] of wrong) {
    it(`does not start ${how}, and names the variable`, async () => {
      const { child, output } = launch({ ...environment, ...variables });
      const [code] = await once(child, "close");

      expect(code).to.equal(2);
      expect(output()).to.contain(name).and.not.to.contain("sk-provider");
    });
  }
});
