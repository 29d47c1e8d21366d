import type { KubernetesClient } from "../../common/kubernetes/client.ts";
import {
  type Named,
  type WatchedCollection,
  type WatchOptions,
  watchCollection,
} from "../../common/kubernetes/watched-collection.ts";
import type { Logger } from "../../common/logging.ts";
import type { RouteTable } from "../route-table.ts";
import type { BackendAddress } from "./backends.ts";
import { createClaimTable, serviceUrl } from "./claim-table.ts";
import { resolve } from "./resolve.ts";
import {
  GATEWAY_API_GROUP,
  type GatewayName,
  gateway,
  gatewayClass,
  httpRoute,
  referenceGrant,
  type Snapshot,
  service,
} from "./resources.ts";
import { planStatuses } from "./status-plan.ts";
import { createStatusWriter } from "./status-writer.ts";

export interface KubernetesRoutesOptions {
  client: KubernetesClient;
  logger: Logger;
  gateway: GatewayName;
  gatewayClass: string;
  /** Where a Service's port is reached; by its name in the cluster's DNS if not said. */
  urlOf?: (address: BackendAddress) => URL;
}

/** Routes that follow the API server. Empty until the first sync. */
export interface KubernetesRoutes extends RouteTable {
  /** Resolves once the whole table is known for the first time. */
  synced: Promise<void>;
  stop(): void;
}

/** Changes that come together, such as a route and its Service, are looked at together. */
const GATHER_MS = 20;

/**
 * Keeps a route table of the cluster's HTTPRoutes and writes into their status how they were taken.
 * While the API server is away the last table stays in force, and nothing is written.
 */
export function watchRoutes(options: KubernetesRoutesOptions): KubernetesRoutes {
  const { client, logger, gateway: ours, urlOf = serviceUrl } = options;
  const writer = createStatusWriter({ client, logger });
  const firstSync = Promise.withResolvers<void>();
  let table = createClaimTable([], urlOf);
  let gathering: NodeJS.Timeout | undefined;

  const onChange = () => {
    gathering ??= setTimeout(refresh, GATHER_MS);
  };
  const watch = <T extends Named>(
    path: string,
    rest: Pick<WatchOptions<T>, "schema" | "fieldSelector">,
  ) => watchCollection<T>({ client, logger, onChange, path, ...rest });
  const api = `/apis/${GATEWAY_API_GROUP}`;
  const collections = {
    classes: watch(`${api}/v1/gatewayclasses`, {
      schema: gatewayClass,
      fieldSelector: `metadata.name=${options.gatewayClass}`,
    }),
    gateways: watch(`${api}/v1/namespaces/${ours.namespace}/gateways`, {
      schema: gateway,
      fieldSelector: `metadata.name=${ours.name}`,
    }),
    routes: watch(`${api}/v1/httproutes`, { schema: httpRoute }),
    grants: watch(`${api}/v1beta1/referencegrants`, { schema: referenceGrant }),
    services: watch("/api/v1/services", { schema: service }),
  };
  const all: WatchedCollection<Named>[] = Object.values(collections);

  function refresh(): void {
    gathering = undefined;
    if (all.some(({ state }) => state === "unknown")) return;
    const snapshot = snapshotOf();
    const resolution = resolve(snapshot);
    table = createClaimTable(resolution.claims, urlOf);
    firstSync.resolve();
    // What is not known for certain must not be written: the other replica may know better.
    const certain = all.every(({ state }) => state === "current");
    const now = new Date().toISOString().replace(/\.\d+/, "");
    writer.plan(certain ? planStatuses(snapshot, resolution, now) : []);
  }

  function snapshotOf(): Snapshot {
    const { classes, gateways, routes, grants, services } = collections;
    return {
      ours,
      gatewayClass: classes.objects.get(`/${options.gatewayClass}`),
      gateway: gateways.objects.get(`${ours.namespace}/${ours.name}`),
      routes: [...routes.objects.values()],
      grants: [...grants.objects.values()],
      services: services.objects,
    };
  }

  return {
    synced: firstSync.promise,
    lookup: (host, graphId) => table.lookup(host, graphId),
    serves: (host) => table.serves(host),
    graphIds: () => table.graphIds(),
    stop() {
      clearTimeout(gathering);
      writer.stop();
      for (const { stop } of all) stop();
    },
  };
}
