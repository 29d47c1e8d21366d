import { z } from "zod";
import type { ClusterAccess } from "./client.ts";

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * The variables that say how to reach the API server. In a pod the kubelet sets the first two;
 * `KUBERNETES_API_URL` is for what runs elsewhere, such as behind `kubectl proxy`, and brings no token.
 */
export const clusterVariables = {
  KUBERNETES_SERVICE_HOST: z.string().optional(),
  KUBERNETES_SERVICE_PORT: z.string().default("443"),
  KUBERNETES_API_URL: z.url({ protocol: /^https?$/ }).optional(),
};

/** @returns undefined outside of a cluster where nothing else is said. */
export function clusterAccessOf(
  variables: z.output<z.ZodObject<typeof clusterVariables>>,
): ClusterAccess | undefined {
  const { KUBERNETES_API_URL: url, KUBERNETES_SERVICE_HOST: host } = variables;
  if (url !== undefined) {
    return { server: new URL(url), tokenFile: undefined, caFile: undefined };
  }
  if (host === undefined) return undefined;
  const authority = host.includes(":") ? `[${host}]` : host;
  return {
    server: new URL(`https://${authority}:${variables.KUBERNETES_SERVICE_PORT}`),
    tokenFile: `${SERVICE_ACCOUNT}/token`,
    caFile: `${SERVICE_ACCOUNT}/ca.crt`,
  };
}
