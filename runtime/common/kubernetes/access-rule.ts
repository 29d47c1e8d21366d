/** A rule of a Kubernetes role, as far as our programs need it. */
export interface AccessRule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
}
