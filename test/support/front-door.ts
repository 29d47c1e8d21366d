import { request } from "undici";
import type { Readiness } from "../../runtime/gateway/routes/probes.ts";
import { gatewayDeps, recordingLogger, startGateway, startUpstream } from "./gateway.ts";

/**
 * A gateway before a worker and a model gateway that answer with what they were sent; a path that
 * ends in `/runs/stream` is answered by two events.
 */
export async function openFrontDoor() {
  const readiness: Readiness = { state: "ready" };
  const { logger, log } = recordingLogger();
  const worker = await startUpstream((incoming, outgoing) => {
    if (incoming.url?.endsWith("/runs/stream")) {
      outgoing.writeHead(200, { "content-type": "text/event-stream" });
      outgoing.end('event: metadata\ndata: {"run_id":"r1"}\n\nevent: values\ndata: {"n":1}\n\n');
      return;
    }
    const { url, method, headers } = incoming;
    outgoing.writeHead(200, { "content-type": "application/json" });
    outgoing.end(JSON.stringify({ url, method, headers }));
  });
  const models = await startUpstream(({ url, headers }, outgoing) => {
    outgoing.end(JSON.stringify({ models: true, headers, url }));
  });
  const gateway = await startGateway(
    await gatewayDeps({ worker: worker.url, modelGateway: models.url, readiness, logger }),
  );
  return {
    url: gateway.url,
    worker: worker.url,
    log,
    readiness,
    /** Calls the agents' host unless `headers` name another; a body that is JSON comes parsed. */
    async call(path: string, headers: Record<string, string> = {}, method: "GET" | "POST" = "GET") {
      const answer = await request(new URL(path, gateway.url), {
        method,
        headers: { host: "agents.localhost:8088", ...headers },
      });
      const text = await answer.body.text();
      const body = text.startsWith("{") ? JSON.parse(text) : text;
      return { status: answer.statusCode, headers: answer.headers, body };
    },
    async stop() {
      for (const program of [gateway, worker, models]) await program.stop();
    },
  };
}

export type FrontDoor = Awaited<ReturnType<typeof openFrontDoor>>;
