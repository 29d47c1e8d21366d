import { z } from "zod";

/*
 * The kinds of the Kubernetes Gateway API v1 that routes are made of, as far as they are looked at:
 * what is not named here is not kept. Defaults are those of the API's own schemas.
 */

export const GATEWAY_API_GROUP = "gateway.networking.k8s.io";
/** Who we are in `GatewayClass.spec.controllerName` and in every status that we write. */
export const CONTROLLER_NAME = "platform.dev/gateway";

const metadata = z.object({
  name: z.string(),
  namespace: z.string().default(""),
  resourceVersion: z.string(),
  generation: z.number().default(0),
  creationTimestamp: z.string().default(""),
});

const condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(""),
  message: z.string().default(""),
  observedGeneration: z.number().optional(),
  lastTransitionTime: z.string(),
});
export type Condition = z.infer<typeof condition>;

const parentRef = z.object({
  group: z.string().default(GATEWAY_API_GROUP),
  kind: z.string().default("Gateway"),
  namespace: z.string().optional(),
  name: z.string(),
  sectionName: z.string().optional(),
  port: z.number().optional(),
});
export type ParentRef = z.infer<typeof parentRef>;

const backendRef = z.object({
  group: z.string().default(""),
  kind: z.string().default("Service"),
  namespace: z.string().optional(),
  name: z.string(),
  port: z.number().optional(),
  weight: z.number().default(1),
  filters: z.array(z.unknown()).default([]),
});
export type BackendRef = z.infer<typeof backendRef>;

const valueMatch = z.object({
  type: z.string().default("Exact"),
  name: z.string(),
  value: z.string(),
});

/** Loose, so that what nobody here knows of is seen and refused, not passed over. */
const routeMatch = z.looseObject({
  path: z
    .object({ type: z.string().default("PathPrefix"), value: z.string().default("/") })
    .optional(),
  headers: z.array(valueMatch).default([]),
  queryParams: z.array(valueMatch).default([]),
});
export type RouteMatch = z.infer<typeof routeMatch>;

const routeRule = z.looseObject({
  name: z.string().optional(),
  matches: z.array(routeMatch).default([]),
  filters: z.array(z.unknown()).default([]),
  backendRefs: z.array(backendRef).default([]),
});
export type RouteRule = z.infer<typeof routeRule>;

/** Of all controllers: others' entries are written back as they are. */
const routeParentStatus = z.looseObject({
  parentRef: z.looseObject(parentRef.shape),
  controllerName: z.string(),
  conditions: z.array(condition).default([]),
});
export type RouteParentStatus = z.infer<typeof routeParentStatus>;

export const httpRoute = z.object({
  metadata,
  spec: z.object({
    parentRefs: z.array(parentRef).default([]),
    hostnames: z.array(z.string()).default([]),
    rules: z.array(routeRule).default([]),
  }),
  status: z.object({ parents: z.array(routeParentStatus).default([]) }).default({ parents: [] }),
});
export type HttpRoute = z.infer<typeof httpRoute>;

const listener = z.object({
  name: z.string(),
  hostname: z.string().optional(),
  port: z.number(),
  protocol: z.string(),
  allowedRoutes: z
    .object({
      namespaces: z.object({ from: z.string().default("Same") }).default({ from: "Same" }),
      kinds: z
        .array(z.object({ group: z.string().default(GATEWAY_API_GROUP), kind: z.string() }))
        .default([]),
    })
    .default({ namespaces: { from: "Same" }, kinds: [] }),
});
export type Listener = z.infer<typeof listener>;

const listenerStatus = z.looseObject({
  name: z.string(),
  attachedRoutes: z.number().default(0),
  supportedKinds: z.array(z.looseObject({ group: z.string().optional(), kind: z.string() })),
  conditions: z.array(condition).default([]),
});
export type ListenerStatus = z.infer<typeof listenerStatus>;

const address = z.object({ type: z.string().default("IPAddress"), value: z.string() });
export type GatewayAddress = z.infer<typeof address>;

export const gateway = z.object({
  metadata,
  spec: z.object({ gatewayClassName: z.string(), listeners: z.array(listener).default([]) }),
  status: z
    .object({
      addresses: z.array(address).default([]),
      conditions: z.array(condition).default([]),
      listeners: z.array(listenerStatus).default([]),
    })
    .default({ addresses: [], conditions: [], listeners: [] }),
});
export type Gateway = z.infer<typeof gateway>;

export const gatewayClass = z.object({
  metadata,
  spec: z.object({ controllerName: z.string() }),
  status: z.object({ conditions: z.array(condition).default([]) }).default({ conditions: [] }),
});
export type GatewayClass = z.infer<typeof gatewayClass>;

export const service = z.object({
  metadata,
  spec: z
    .object({
      type: z.string().default("ClusterIP"),
      clusterIP: z.string().default(""),
      selector: z.record(z.string(), z.string()).default({}),
      ports: z
        .array(z.object({ port: z.number(), protocol: z.string().default("TCP") }))
        .default([]),
    })
    .default({ type: "ClusterIP", clusterIP: "", selector: {}, ports: [] }),
  status: z
    .object({
      loadBalancer: z
        .object({
          ingress: z
            .array(z.object({ ip: z.string().optional(), hostname: z.string().optional() }))
            .default([]),
        })
        .default({ ingress: [] }),
    })
    .default({ loadBalancer: { ingress: [] } }),
});
export type Service = z.infer<typeof service>;

export const referenceGrant = z.object({
  metadata,
  spec: z.object({
    from: z.array(z.object({ group: z.string(), kind: z.string(), namespace: z.string() })),
    to: z.array(z.object({ group: z.string(), kind: z.string(), name: z.string().optional() })),
  }),
});
export type ReferenceGrant = z.infer<typeof referenceGrant>;

/** Which Gateway is ours. */
export interface GatewayName {
  name: string;
  namespace: string;
}

/** Everything that routes are made of, as it is known at one moment. */
export interface Snapshot {
  ours: GatewayName;
  gatewayClass: GatewayClass | undefined;
  gateway: Gateway | undefined;
  routes: readonly HttpRoute[];
  /** By `namespace/name`. */
  services: ReadonlyMap<string, Service>;
  grants: readonly ReferenceGrant[];
}

/** A finding that becomes a condition. */
export interface Verdict {
  ok: boolean;
  reason: string;
  message: string;
}
