import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { request } from "undici";
import { generateAssertionKeys } from "../../runtime/common/identity.ts";
import { CREDENTIALS, type Listening, startUpstream } from "../support/gateway.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";

const MAIN = fileURLToPath(new URL("../../runtime/gateway/main.ts", import.meta.url));
const CALL = { host: "localhost", authorization: "Bearer dev", "x-graph-id": "assistant" };

describe("the gateway as a program", () => {
  let postgres: TestPostgres;
  let worker: Listening;
  let program: ChildProcess | undefined;

  before(async () => {
    postgres = await startTestPostgres();
    worker = await startUpstream((_, outgoing) => outgoing.end('{"answer":42}'));
  });
  after(async () => {
    await worker.stop();
    await postgres.stop();
  });

  afterEach(() => program?.kill("SIGKILL"));

  function start(changes: Record<string, string> = {}): ChildProcess {
    program = fork(MAIN, [], {
      stdio: ["ignore", "pipe", "inherit", "ipc"],
      env: {
        PORT: "0",
        BIND_ADDRESSES: "127.0.0.1,::1",
        DRAIN_MS: "2000",
        ROUTES: JSON.stringify([{ graphId: "assistant", url: worker.url.origin }]),
        MODEL_GATEWAY_URL: worker.url.origin,
        ASSERTION_PRIVATE_KEY: generateAssertionKeys().privateKey,
        DEV_TOKEN: "dev",
        DEV_TENANT: "local",
        DATABASE_URL: postgres.url("gateway"),
        SPANS_DATABASE_URL: postgres.url("gateway"),
        CONSOLE_EMAIL: CREDENTIALS.email,
        CONSOLE_PASSWORD: CREDENTIALS.password,
        CONSOLE_SESSION_SECRET: CREDENTIALS.sessionSecret,
        ...changes,
      },
    });
    return program;
  }

  it("migrates, says where it listens, serves, keeps its spans, and leaves with its parent", async () => {
    const program = start();
    program.stdout?.resume();
    const exited = once(program, "exit");
    const [{ listening }] = await once(program, "message");
    const base = `http://127.0.0.1:${listening}`;
    expect((await request(`${base}/ready`)).statusCode).to.equal(200);
    const answer = await request(`${base}/runs/wait`, { method: "POST", headers: CALL });
    expect(await answer.body.json()).to.deep.equal({ answer: 42 });

    const form = { email: CREDENTIALS.email, password: CREDENTIALS.password };
    const signedIn = await request(`${base}/sign-in`, {
      method: "POST",
      headers: { origin: base, "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams(form).toString(),
    });
    const cookie = String(signedIn.headers["set-cookie"]).split(";")[0] ?? "";
    const deadline = Date.now() + 10_000;
    let list = "";
    while (!list.includes(">assistant</a>") && Date.now() < deadline) {
      const page = await request(`${base}/traces?graph=assistant`, { headers: { cookie } });
      list = await page.body.text();
    }
    expect(list).to.contain(">assistant</a>").and.contain(">local<");
    program.disconnect();
    expect((await exited)[0]).to.equal(0);
  });

  it("with a wrong variable says which one and ends with code 2", async () => {
    const program = start({ DEV_TENANT: "", ROUTES: "no" });
    const exited = once(program, "exit");
    const said = program.stdout === null ? "" : await text(program.stdout);
    expect((await exited)[0]).to.equal(2);
    expect(said).to.contain("ROUTES: is not JSON");
    expect(said).not.to.contain(CREDENTIALS.password);
  });
});
