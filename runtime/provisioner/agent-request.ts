import { z } from "zod";
import { agentDeclaration } from "../common/agent.ts";
import {
  agentKey,
  agentName,
  CREDENTIALS_SECRET_ANNOTATION,
  DEFAULT_TENANT,
  defaultRedisPrefix,
  GRAPH_ID_LABEL,
  REDIS_PREFIX_ANNOTATION,
  ROTATE_ANNOTATION,
  secretName,
  TENANT_ANNOTATION,
} from "./names.ts";

const DEFAULT_GRACE_S = 30;

/** As much of a Deployment as the provisioner reads. */
export const deployment = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    uid: z.string(),
    creationTimestamp: z.coerce.date(),
    deletionTimestamp: z.coerce.date().optional(),
    generation: z.number().default(0),
    resourceVersion: z.string().default(""),
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
  spec: z.object({
    replicas: z.number().default(1),
    template: z.object({
      metadata: z
        .looseObject({ annotations: z.record(z.string(), z.string()).default({}) })
        .default({ annotations: {} }),
      spec: z
        .looseObject({ terminationGracePeriodSeconds: z.number().default(DEFAULT_GRACE_S) })
        .default({ terminationGracePeriodSeconds: DEFAULT_GRACE_S }),
    }),
  }),
  status: z
    .looseObject({
      observedGeneration: z.number().default(0),
      replicas: z.number().default(0),
      updatedReplicas: z.number().default(0),
      availableReplicas: z.number().default(0),
    })
    .default({ observedGeneration: 0, replicas: 0, updatedReplicas: 0, availableReplicas: 0 }),
});

export type Deployment = z.output<typeof deployment>;

/** What a Deployment asks for. */
export interface AgentRequest {
  namespace: string;
  release: string;
  /** Its database role, schema and Redis user. */
  name: string;
  uid: string;
  graphId: string;
  tenant: string;
  redisPrefix: string;
  /** Value of the rotation annotation: a new one asks for new credentials. */
  rotation: string | undefined;
  /** How long its pods may go on after they were asked to end. */
  graceMs: number;
}

const graphId = agentDeclaration.shape.graphId;
const tenant = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/);
// One segment after aegra: and no wildcard, so that no prefix can lie within another.
const redisPrefix = z.string().regex(/^aegra:[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$/);

/** Names a Deployment among all namespaces. */
export function keyOf({ metadata }: Deployment): string {
  return agentKey(metadata.namespace, metadata.name);
}

/** What a Deployment asks for, or a sentence that says why it can't have it. */
export function readAgentRequest(from: Deployment): AgentRequest | { refused: string } {
  const { name, namespace, uid, labels, annotations } = from.metadata;
  const graph = graphId.safeParse(labels[GRAPH_ID_LABEL]);
  if (!graph.success) {
    return refused(
      `Label ${GRAPH_ID_LABEL} is not a graph id: use 1 to 63 letters, digits, hyphens and underscores.`,
    );
  }
  const owner = tenant.safeParse(annotations[TENANT_ANNOTATION] ?? DEFAULT_TENANT);
  if (!owner.success) {
    return refused(
      `Annotation ${TENANT_ANNOTATION} is not a tenant: use up to 128 letters, digits, dots, hyphens and underscores.`,
    );
  }
  const prefix = redisPrefix.safeParse(
    annotations[REDIS_PREFIX_ANNOTATION] ?? defaultRedisPrefix(graph.data),
  );
  if (!prefix.success) {
    return refused(
      `Annotation ${REDIS_PREFIX_ANNOTATION} must look like aegra:<name>, with letters, digits, hyphens and underscores in the name.`,
    );
  }
  const secret = annotations[CREDENTIALS_SECRET_ANNOTATION] ?? secretName(name);
  if (secret !== secretName(name)) {
    return refused(
      `Annotation ${CREDENTIALS_SECRET_ANNOTATION} must be ${secretName(name)}: credentials are put nowhere else.`,
    );
  }
  return {
    namespace,
    release: name,
    name: agentName(namespace, name),
    uid,
    graphId: graph.data,
    tenant: owner.data,
    redisPrefix: prefix.data,
    rotation: annotations[ROTATE_ANNOTATION],
    graceMs: from.spec.template.spec.terminationGracePeriodSeconds * 1_000,
  };
}

function refused(sentence: string): { refused: string } {
  return { refused: sentence };
}
