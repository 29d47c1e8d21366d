import { request } from "undici";
import { z } from "zod";
import { createKubernetesClient } from "../../runtime/common/kubernetes/client.ts";
import type { BackendAddress } from "../../runtime/gateway/kubernetes-routes/backends.ts";
import { watchRoutes } from "../../runtime/gateway/kubernetes-routes/watch-routes.ts";
import type { Readiness } from "../../runtime/gateway/routes/probes.ts";
import { eventually } from "./eventually.ts";
import { DEV_TOKEN, gatewayDeps, recordingLogger, startGateway } from "./gateway.ts";
import { KubernetesApi } from "./kubernetes-api.ts";

const GATEWAY_API = "/apis/gateway.networking.k8s.io/v1";
export const GATEWAY_PATH = `${GATEWAY_API}/namespaces/platform/gateways/platform`;
export const CLASS_PATH = `${GATEWAY_API}/gatewayclasses/platform`;
/** The promise to users: a route change takes effect within this. */
export const ROUTE_CHANGE_MS = 1_000;

/** What a test says of a route; the rest is as the chart `platform-agent` makes it. */
export interface RouteSketch {
  graphIds?: string[];
  hostnames?: string[];
  created?: string;
  backend?: Record<string, unknown>;
  parentRef?: Record<string, unknown>;
  rule?: Record<string, unknown>;
  match?: Record<string, unknown>;
  status?: unknown;
}

/** A route's manifest in the namespace `default`. */
export function routeManifest(name: string, sketch: RouteSketch = {}) {
  const { graphIds = [name], hostnames = ["agents.localhost"] } = sketch;
  const path = { type: "PathPrefix", value: "/" };
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "HTTPRoute",
    metadata: { name, ...(sketch.created !== undefined && { creationTimestamp: sketch.created }) },
    spec: {
      parentRefs: [{ name: "platform", namespace: "platform", ...sketch.parentRef }],
      hostnames,
      rules: [
        {
          matches: graphIds.flatMap((value) => [
            { path, headers: [{ type: "Exact", name: "X-Graph-ID", value }], ...sketch.match },
            { path, queryParams: [{ type: "Exact", name: "graph_id", value }] },
          ]),
          backendRefs: [{ name, port: 8000, ...sketch.backend }],
          ...sketch.rule,
        },
      ],
    },
    ...(sketch.status !== undefined && { status: sketch.status }),
  };
}

const status = z.looseObject({
  parents: z
    .array(
      z.looseObject({
        parentRef: z.looseObject({ name: z.string() }),
        controllerName: z.string(),
        conditions: z.array(
          z.object({
            type: z.string(),
            status: z.string(),
            reason: z.string(),
            message: z.string(),
            observedGeneration: z.number(),
            lastTransitionTime: z.string(),
          }),
        ),
      }),
    )
    .default([]),
});

/** A cluster with our Gateway and its class, as the stack makes them. */
export async function startCluster() {
  const api = new KubernetesApi();
  await api.start();
  const { store } = api;
  const collection = (resource: string, namespace = "default") =>
    `${GATEWAY_API}/namespaces/${namespace}/${resource}`;
  const routePath = (name: string, namespace = "default") =>
    `${collection("httproutes", namespace)}/${name}`;

  store.apply(`${GATEWAY_API}/gatewayclasses`, {
    kind: "GatewayClass",
    metadata: { name: "platform" },
    spec: { controllerName: "platform.dev/gateway" },
  });
  const applyGateway = (listener: Record<string, unknown> = {}) =>
    store.apply(collection("gateways", "platform"), {
      kind: "Gateway",
      metadata: { name: "platform" },
      spec: {
        gatewayClassName: "platform",
        listeners: [
          {
            name: "http",
            port: 8080,
            protocol: "HTTP",
            allowedRoutes: { namespaces: { from: "All" } },
            ...listener,
          },
        ],
      },
    });
  applyGateway();

  const parentsOf = (name: string, namespace = "default") =>
    status.parse(store.find(routePath(name, namespace))?.status ?? {}).parents;
  const conditionOf = (type: string, name: string, namespace = "default") =>
    parentsOf(name, namespace)
      .flatMap(({ conditions }) => conditions)
      .find((condition) => condition.type === type);

  return {
    api,
    store,
    applyGateway,
    parentsOf,
    conditionOf,
    routePath,
    applyService: (name: string, namespace = "default", spec: Record<string, unknown> = {}) =>
      store.apply(`/api/v1/namespaces/${namespace}/services`, {
        kind: "Service",
        metadata: { name },
        spec: { type: "ClusterIP", clusterIP: "10.96.0.7", ports: [{ port: 8000 }], ...spec },
      }),
    applyRoute: (name: string, sketch?: RouteSketch, namespace = "default") =>
      store.apply(collection("httproutes", namespace), routeManifest(name, sketch)),
    applyGrant: (namespace: string, from: string) =>
      store.apply(
        `/apis/gateway.networking.k8s.io/v1beta1/namespaces/${namespace}/referencegrants`,
        {
          kind: "ReferenceGrant",
          metadata: { name: "routes" },
          spec: {
            from: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", namespace: from }],
            to: [{ group: "", kind: "Service" }],
          },
        },
      ),
    /** Waits until a route's condition has this reason. */
    reason: (type: string, reason: string, name: string, namespace = "default") =>
      eventually(`${name} is ${type}: ${reason}`, () => {
        return conditionOf(type, name, namespace)?.reason === reason;
      }),
  };
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>;

/** A gateway that takes its routes from a cluster. */
export async function openClusterDoor(
  server: URL,
  workers: Record<string, URL>,
  options: { tokenFile?: string } = {},
) {
  const { logger, log } = recordingLogger();
  const access = { server, tokenFile: options.tokenFile, caFile: undefined };
  const client = await createKubernetesClient(access);
  const urlOf = ({ name }: BackendAddress) => workers[name] ?? new URL("http://127.0.0.1:9");
  const routes = watchRoutes({
    client,
    logger,
    urlOf,
    gateway: { name: "platform", namespace: "platform" },
    gatewayClass: "platform",
  });
  const readiness: Readiness = { state: "starting" };
  const synced = routes.synced.then(() => {
    readiness.state = "ready";
  });
  const gateway = await startGateway(await gatewayDeps({ routes, logger, readiness }));
  const call = async (graphId: string, headers: Record<string, string> = {}) => {
    const answer = await request(new URL("/info", gateway.url), {
      headers: {
        host: "agents.localhost",
        authorization: `Bearer ${DEV_TOKEN}`,
        "x-graph-id": graphId,
        ...headers,
      },
    });
    return { status: answer.statusCode, text: await answer.body.text() };
  };
  return {
    url: gateway.url,
    routes,
    synced,
    log,
    call,
    /** Waits, no longer than a route change may take, for an answer with this status. */
    answers: (status: number, graphId: string, headers: Record<string, string> = {}) =>
      eventually(
        `${graphId} answers with ${status}`,
        async () => (await call(graphId, headers)).status === status,
        ROUTE_CHANGE_MS,
      ),
    async stop() {
      await gateway.stop();
      routes.stop();
      await client.close();
    },
  };
}

export type ClusterDoor = Awaited<ReturnType<typeof openClusterDoor>>;
