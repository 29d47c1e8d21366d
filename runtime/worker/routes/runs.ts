import { type Context, Hono } from "hono";
import { HttpError, notFound } from "../../common/errors.ts";
import { ASSERTION_HEADER } from "../../common/identity.ts";
import type { Logger } from "../../common/logging.ts";
import { clientGone, sendEvents, sendWhenReady } from "../answer.ts";
import type { RunEvent } from "../event-bus.ts";
import {
  configurableHeaders,
  readBody,
  readQuery,
  uuidParameter,
  type WorkerContext,
  type WorkerEnv,
} from "../request.ts";
import type { AcceptedRun, RunService } from "../run-service.ts";
import type { RunStore } from "../run-store.ts";
import type { Scope } from "../scope.ts";
import type { ThreadStore } from "../thread-store.ts";
import * as wire from "../wire.ts";

export interface RunRoutesDeps {
  runs: RunService;
  store: RunStore;
  threads: ThreadStore;
  isStopping: () => boolean;
  logger: Logger;
}

/** Runs, on a thread (`/threads/{thread_id}/runs…`) and on their own (`/runs…`). */
export function runRoutes(deps: RunRoutesDeps): Hono<WorkerEnv> {
  const { runs, store, threads, isStopping, logger } = deps;
  const app = new Hono<WorkerEnv>();

  const requestOf = (
    c: WorkerContext,
    body: wire.RunCreate,
    recorded: boolean,
    gone: AbortSignal,
  ) => ({
    scope: c.var.caller,
    threadId: threadParameter(c),
    body,
    caller: {
      subject: c.var.caller.subject,
      assertion: c.req.header(ASSERTION_HEADER) ?? "",
      trace: traceOf(c),
    },
    headers: configurableHeaders(c.req.header()),
    recorded,
    gone,
  });

  const create = (c: WorkerContext, body: wire.RunCreate, recorded: boolean, gone: AbortSignal) =>
    runs.create(requestOf(c, body, recorded, gone));

  const wait = async (c: WorkerContext) => {
    const gone = clientGone(c);
    const body = await readBody(c, wire.runCreate);
    const accepted = await create(c, body, false, gone);
    if (body.on_disconnect === "cancel") cancelWhenGone(gone, accepted, accepted.runId);
    return sendWhenReady(c, places(accepted, "join"), runs.output(accepted, gone));
  };

  const stream = async (c: WorkerContext) => {
    const gone = clientGone(c);
    const body = await readBody(c, wire.runCreate);
    const accepted = await create(c, body, true, gone);
    if (body.on_disconnect === "cancel") cancelWhenGone(gone, accepted, accepted.runId);
    const events = runs.events(accepted, accepted.runId, -1, gone);
    return sendEvents(c, places(accepted, "stream"), events);
  };

  const background = async (c: WorkerContext) => {
    const accepted = await create(c, await readBody(c, wire.runCreate), true, clientGone(c));
    return c.json(describe(accepted), 200, places(accepted, "stream"));
  };

  const cancelWhenGone = (gone: AbortSignal, scope: Scope, runId: string) => {
    const cancel = async () => {
      if (isStopping()) return;
      try {
        await runs.cancel(scope, { runIds: [runId] }, "interrupt");
      } catch (error) {
        logger.warn({ run_id: runId, err: error }, "a run whose client left was not cancelled");
      }
    };
    if (gone.aborted) void cancel();
    else gone.addEventListener("abort", () => void cancel(), { once: true });
  };

  app.post("/runs/wait", wait);
  app.post("/threads/:thread_id/runs/wait", wait);
  app.post("/runs/stream", stream);
  app.post("/threads/:thread_id/runs/stream", stream);
  app.post("/runs", background);
  app.post("/threads/:thread_id/runs", background);

  app.post("/runs/batch", async (c) => {
    const gone = clientGone(c);
    const bodies = await readBody(c, wire.runBatch);
    const accepted = await runs.createAll(bodies.map((body) => requestOf(c, body, true, gone)));
    return c.json(accepted.map(describe));
  });

  app.post("/runs/cancel", async (c) => {
    const query = readQuery(c, wire.cancelQuery);
    const body = await readBody(c, wire.runCancelMany);
    const { thread_id: threadId, run_ids: runIds, status } = body;
    const statuses = status == null || status === "all" ? {} : { statuses: [status] };
    await runs.cancel(c.var.caller, { ...statuses, threadId, runIds }, query.action);
    return c.body(null, 204);
  });

  app.get("/threads/:thread_id/runs", async (c) => {
    const threadId = uuidParameter(c, "thread_id");
    const query = readQuery(c, wire.runListQuery);
    if ((await threads.get(c.var.caller, threadId)) === undefined) {
      throw notFound(`Thread ${threadId} not found.`);
    }
    return c.json(await store.list(c.var.caller, threadId, { ...query, status: query.status }));
  });

  const known = async (c: WorkerContext) => {
    const threadId = threadParameter(c) ?? null;
    const runId = uuidParameter(c, "run_id");
    const run = await store.get(c.var.caller, threadId, runId);
    if (run === undefined) throw notFound(`Run ${runId} not found.`);
    return run;
  };

  app.get("/threads/:thread_id/runs/:run_id", async (c) => c.json(await known(c)));

  app.delete("/threads/:thread_id/runs/:run_id", async (c) => {
    const { thread_id, run_id } = await known(c);
    if ((await store.delete(c.var.caller, thread_id, run_id)) === false) {
      throw new HttpError(409, "conflict", `Run ${run_id} is active. Cancel it first.`);
    }
    return c.body(null, 204);
  });

  const join = async (c: WorkerContext) => {
    const gone = clientGone(c);
    const query = readQuery(c, wire.joinQuery);
    const run = await known(c);
    if (query.cancel_on_disconnect) cancelWhenGone(gone, c.var.caller, run.run_id);
    return sendWhenReady(c, {}, runs.join(c.var.caller, run.thread_id, run.run_id, gone));
  };
  app.get("/threads/:thread_id/runs/:run_id/join", join);
  app.get("/runs/:run_id/join", join);

  const joinStream = async (c: WorkerContext) => {
    const gone = clientGone(c);
    const query = readQuery(c, wire.joinStreamQuery, { stream_mode: c.req.queries("stream_mode") });
    const afterId = lastEventId(c);
    const run = await known(c);
    if (query.cancel_on_disconnect) cancelWhenGone(gone, c.var.caller, run.run_id);
    const events = runs.events(c.var.caller, run.run_id, afterId, gone);
    return sendEvents(
      c,
      { "content-location": `/threads/${run.thread_id}/runs/${run.run_id}` },
      query.stream_mode === undefined ? events : ofModes(events, query.stream_mode),
    );
  };
  app.get("/threads/:thread_id/runs/:run_id/stream", joinStream);
  app.get("/runs/:run_id/stream", joinStream);

  app.post("/threads/:thread_id/runs/:run_id/cancel", async (c) => {
    const gone = clientGone(c);
    const { wait: waits, action } = readQuery(c, wire.cancelQuery);
    const run = await known(c);
    const touched = await runs.cancel(c.var.caller, { runIds: [run.run_id] }, action);
    if (touched.length === 0) {
      throw new HttpError(409, "conflict", `Run ${run.run_id} is over (${run.status}).`);
    }
    if (!waits) return c.body(null, 202);
    await runs.join(c.var.caller, run.thread_id, run.run_id, gone);
    return c.body(null, 204);
  });

  return app;
}

function threadParameter(c: WorkerContext): string | undefined {
  return c.req.param("thread_id") === undefined ? undefined : uuidParameter(c, "thread_id");
}

function traceOf(c: Context): Record<string, string> {
  const traceparent = c.req.header("traceparent");
  const tracestate = c.req.header("tracestate");
  return { ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) };
}

/** Where the run is, and where to go on listening after a lost connection (SDKs read both). */
function places(run: AcceptedRun, resume: "join" | "stream"): Record<string, string> {
  const place = `/threads/${run.threadId}/runs/${run.runId}`;
  return { "content-location": place, location: `${place}/${resume}` };
}

function describe({ run, status, createdAt }: AcceptedRun): object {
  const at = createdAt.toISOString();
  return {
    run_id: run.runId,
    thread_id: run.threadId,
    assistant_id: run.assistantId,
    status,
    metadata: run.metadata,
    kwargs: run.kwargs,
    multitask_strategy: run.multitaskStrategy,
    created_at: at,
    updated_at: at,
  };
}

/** `Last-Event-ID`: -1 or nothing means all events. */
function lastEventId(c: WorkerContext): number {
  const header = c.req.header("last-event-id");
  if (header === undefined || header === "") return -1;
  if (/^-1$|^\d{1,15}$/.test(header)) return Number(header);
  throw new HttpError(400, "bad_request", "Last-Event-ID must be an id of this stream, or -1.");
}

async function* ofModes(
  events: AsyncIterable<RunEvent>,
  modes: string[],
): AsyncGenerator<RunEvent> {
  const wanted = new Set([...modes, "metadata", "error"]);
  if (wanted.has("messages-tuple")) wanted.add("messages");
  for await (const event of events) {
    const mode = event.event.split(/[|/]/)[0] ?? "";
    if (wanted.has(mode)) yield event;
  }
}
