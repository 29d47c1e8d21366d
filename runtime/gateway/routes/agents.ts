import { Hono } from "hono";
import {
  agentProtocolError,
  forbidden,
  HttpError,
  notFound,
  unauthorized,
  unavailable,
} from "../../common/errors.ts";
import { ASSERTION_HEADER, type AssertionSigner } from "../../common/identity.ts";
import { GRAPH_ID } from "../../common/telemetry.ts";
import { authenticate } from "../authentication/authenticate.ts";
import type { TokenVerifier } from "../authentication/token-verifier.ts";
import { crossOrigin } from "../cross-origin.ts";
import type { GatewayEnv } from "../gateway-env.ts";
import { type HostNames, routingHost } from "../hosts.ts";
import { type DoorDeps, forwardTo, observe } from "../proxy/forwarder.ts";
import { answerErrors } from "../request-errors.ts";
import { withAnswerHeaders } from "../request-id.ts";
import type { RouteTable } from "../route-table.ts";

export interface AgentsDeps extends DoorDeps {
  verifier: TokenVerifier;
  signer: AssertionSigner;
  routes: RouteTable;
  hosts: HostNames;
}

/** The agent front door: who calls, which graph, then everything else is the worker's. */
export function agentRoutes(deps: AgentsDeps): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  answerErrors(app, agentProtocolError, deps.logger);
  app.get("/ok", crossOrigin(deps.corsOrigins), (c) => withAnswerHeaders(c, c.json({ ok: true })));
  observe(app, deps, "CHAIN");
  app.use(authenticate(deps.verifier));
  app.all("*", async (c) => {
    const identity = c.get("identity");
    if (identity === undefined) throw unauthorized("This call needs a token.");
    const graphId = requestedGraph(c.req.header("x-graph-id"), c.req.queries("graph_id"));
    if (identity.graphId !== undefined && identity.graphId !== graphId) {
      throw forbidden(`The token is for the agent ${JSON.stringify(identity.graphId)} alone.`);
    }
    c.set("graphId", graphId);
    c.get("span")?.setAttribute(GRAPH_ID, graphId);
    const route = deps.routes.lookup(routingHost(c.req.url, deps.hosts), graphId);
    if (route === undefined) {
      throw notFound(`No agent with the graph id ${JSON.stringify(graphId)} is deployed.`);
    }
    if (isRun(c.req.method, c.req.path)) c.get("span")?.updateName(graphId);
    const { upstream } = route;
    if (upstream === undefined) {
      throw unavailable(
        `The agent ${JSON.stringify(graphId)} has a route, but nothing is there to answer. The conditions of its HTTPRoute say what is missing.`,
      );
    }
    const assertion = await deps.signer.sign(identity, graphId);
    return forwardTo(deps, c, "worker", upstream, { [ASSERTION_HEADER]: assertion });
  });
  return app;
}

const RUN_PATH = /^(?:\/threads\/[^/]+)?\/runs(?:\/wait|\/stream)?$/;

/**
 * Whether a call begins a run. Tracing UIs title a trace by its first span, so that of a run is
 * called after its agent, as LangChain names the run of a graph; other calls go by method and path.
 */
function isRun(method: string, path: string): boolean {
  return method === "POST" && RUN_PATH.test(path);
}

/**
 * The graph that a call is for. The body is never looked at: routing must not depend on it.
 *
 * @param header A header that was sent twice comes as a list with commas; no graph id has one.
 * @throws HttpError 400 where the graph is missing or said twice with different words.
 */
export function requestedGraph(
  header: string | undefined,
  queried: readonly string[] | undefined,
): string {
  const named = new Set([...(header?.split(",").map((id) => id.trim()) ?? []), ...(queried ?? [])]);
  named.delete("");
  const [graphId, other] = named;
  if (graphId === undefined) {
    throw new HttpError(
      400,
      "graph_id_missing",
      "Say which agent this call is for: send the header `X-Graph-ID: <graph id>` or the query parameter `graph_id`.",
    );
  }
  if (other !== undefined) {
    throw new HttpError(
      400,
      "graph_id_ambiguous",
      `The request names different graphs: ${[...named].join(", ")}. Send one, in the header X-Graph-ID or the query parameter graph_id.`,
    );
  }
  return graphId;
}
