import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { request } from "undici";
import { generateAssertionKeys } from "../../runtime/common/identity.ts";
import { startCluster } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";

const MAIN = fileURLToPath(new URL("../../runtime/gateway/main.ts", import.meta.url));

describe("the gateway program in a cluster", () => {
  it("needs no database, is ready with its routes, and leaves the API server in peace", async () => {
    const cluster = await startCluster();
    cluster.applyService("agent");
    cluster.applyRoute("agent");
    const program = fork(MAIN, [], {
      stdio: ["ignore", "pipe", "inherit", "ipc"],
      env: {
        PORT: "0",
        BIND_ADDRESSES: "127.0.0.1",
        DRAIN_MS: "2000",
        ROUTES_FROM: "kubernetes",
        GATEWAY_NAME: "platform",
        GATEWAY_NAMESPACE: "platform",
        GATEWAY_CLASS: "platform",
        KUBERNETES_API_URL: cluster.api.url.origin,
        MODEL_GATEWAY_URL: "http://127.0.0.1:9",
        TRACES_URL: "http://127.0.0.1:9",
        ASSERTION_PRIVATE_KEY: generateAssertionKeys().privateKey,
        DEV_TOKEN: "dev",
        DEV_TENANT: "local",
      },
    });
    program.stdout?.resume();
    const exited = once(program, "exit");
    const [{ listening }] = await once(program, "message");
    const base = `http://127.0.0.1:${listening}`;
    const ask = async (path: string, graphId: string) => {
      const headers = { authorization: "Bearer dev", "x-graph-id": graphId };
      const answer = await request(base + path, { headers });
      await answer.body.dump();
      return answer.statusCode;
    };
    await eventually("it is ready", async () => (await ask("/ready", "")) === 200);
    await cluster.reason("ResolvedRefs", "ResolvedRefs", "agent");
    // The Service's name leads nowhere on this machine.
    expect(await ask("/info", "agent")).to.equal(502);
    expect(await ask("/info", "nobody")).to.equal(404);

    program.disconnect();
    expect((await exited)[0]).to.equal(0);
    await eventually("its watches are gone", () => cluster.api.watchers() === 0);
    await cluster.api.stop();
  });
});
