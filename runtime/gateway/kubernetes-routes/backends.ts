import {
  type BackendRef,
  GATEWAY_API_GROUP,
  type ReferenceGrant,
  type Service,
  type Snapshot,
  type Verdict,
} from "./resources.ts";

/** A Service's port, which is an address inside of the cluster. */
export interface BackendAddress {
  namespace: string;
  name: string;
  port: number;
}

export type BackendResolution = { address: BackendAddress } | { problem: Verdict };

/** Finds what a rule's backend refers to, from a route in `namespace`. */
export function resolveBackend(
  backend: BackendRef,
  namespace: string,
  snapshot: Pick<Snapshot, "services" | "grants">,
): BackendResolution {
  const { group, kind, name, port } = backend;
  const place = backend.namespace ?? namespace;
  if (group !== "" || kind !== "Service") {
    const found = group === "" ? kind : `${kind}.${group}`;
    return refused("InvalidKind", `A backend must be a Service, not a ${found}.`);
  }
  // Asked first: whether a Service is there is nobody's business who may not refer to it.
  if (place !== namespace && !isGranted(snapshot.grants, namespace, place, name)) {
    return refused(
      "RefNotPermitted",
      `No ReferenceGrant in the namespace ${place} lets HTTPRoutes of ${namespace} refer to the Service ${name}.`,
    );
  }
  const service = snapshot.services.get(`${place}/${name}`);
  const problem = problemOf(service, `${place}/${name}`, port);
  if (problem !== undefined || port === undefined) {
    return refused("BackendNotFound", problem ?? `The Service ${place}/${name} needs a port.`);
  }
  return { address: { namespace: place, name, port } };
}

function problemOf(
  service: Service | undefined,
  name: string,
  port: number | undefined,
): string | undefined {
  if (service === undefined) return `There is no Service ${name}.`;
  const { type, ports } = service.spec;
  // Its name may lead anywhere, out of the cluster and past every network policy.
  if (type === "ExternalName")
    return `The Service ${name} is an ExternalName, which is not served.`;
  const served = ports.filter(({ protocol }) => protocol === "TCP").map((entry) => entry.port);
  if (port !== undefined && served.includes(port)) return undefined;
  const there = served.length === 0 ? "none" : served.join(", ");
  return `The Service ${name} has no TCP port ${port ?? "of no number"}; it has ${there}.`;
}

function isGranted(
  grants: readonly ReferenceGrant[],
  from: string,
  to: string,
  name: string,
): boolean {
  return grants.some(
    ({ metadata, spec }) =>
      metadata.namespace === to &&
      spec.from.some(
        (source) =>
          source.group === GATEWAY_API_GROUP &&
          source.kind === "HTTPRoute" &&
          source.namespace === from,
      ) &&
      spec.to.some(
        (target) =>
          target.group === "" &&
          target.kind === "Service" &&
          (target.name === undefined || target.name === name),
      ),
  );
}

function refused(reason: string, message: string): BackendResolution {
  return { problem: { ok: false, reason, message } };
}
