import type { Deployment } from "./agent-request.ts";
import { CREDENTIALS_ANNOTATION } from "./names.ts";

/** What the pod template has to carry, so that its pods are made anew for these credentials. */
export function rolloutAnnotations(checksum: string): Record<string, string> {
  return { [CREDENTIALS_ANNOTATION]: checksum };
}

/** True where the pod template was told of these credentials. */
export function isAsked({ spec }: Deployment, checksum: string): boolean {
  return spec.template.metadata.annotations[CREDENTIALS_ANNOTATION] === checksum;
}

/** True where no pod is left that was made of an older template. */
export function isRolledOut({ metadata, spec, status }: Deployment): boolean {
  return (
    status.observedGeneration >= metadata.generation &&
    status.replicas === status.updatedReplicas &&
    status.availableReplicas === status.updatedReplicas &&
    status.updatedReplicas >= spec.replicas
  );
}
