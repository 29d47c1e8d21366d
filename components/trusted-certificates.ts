import { createHash, X509Certificate } from "node:crypto";
import type * as k8s from "@pulumi/kubernetes";
import type * as pulumi from "@pulumi/pulumi";
import { z } from "zod";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
const DIRECTORY = "/etc/platform/trusted-certificates";

/** The key of a ConfigMap, and the file of a pod, that certificates are in. */
export const CERTIFICATES_FILE = "certificates.pem";

/**
 * Certificates of CAs in PEM, one after another. Nothing else: Node would start without one that it
 * can't read, and a private key would stand in a ConfigMap.
 */
export const certificates = z.string().superRefine((text, context) => {
  const found = text.match(CERTIFICATE) ?? [];
  const refuse = (message: string) => context.addIssue({ code: "custom", message });
  if (found.length === 0) refuse("has no certificate in PEM (-----BEGIN CERTIFICATE-----…)");
  found.forEach((pem, index) => {
    if (!isCertificate(pem)) refuse(`has a certificate that can't be read, number ${index + 1}`);
  });
  if (/-----(BEGIN|END) /.test(text.replace(CERTIFICATE, ""))) {
    refuse(
      "has something else in PEM than whole certificates: leave it out, above all a private key",
    );
  }
});

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

/** Certificates in the cluster that a program trusts beside the public CAs'. */
export interface TrustedCertificates {
  configMap: pulumi.Input<string>;
  /** Changes when they do, so that pods roll. */
  checksum: string;
}

export function checksumOf(pem: string): string {
  return createHash("sha256").update(pem).digest("hex").slice(0, 16);
}

/** What the pod of a Node program has to have to trust them. */
export function trusting({ configMap, checksum }: TrustedCertificates) {
  const name = "trusted-certificates";
  return {
    annotations: { "platform.dev/trusted-certificates": checksum },
    env: [{ name: "NODE_EXTRA_CA_CERTS", value: `${DIRECTORY}/${CERTIFICATES_FILE}` }],
    volumes: [{ name, configMap: { name: configMap } }],
    volumeMounts: [{ name, mountPath: DIRECTORY, readOnly: true }],
  } satisfies {
    annotations: Record<string, string>;
    env: k8s.types.input.core.v1.EnvVar[];
    volumes: k8s.types.input.core.v1.Volume[];
    volumeMounts: k8s.types.input.core.v1.VolumeMount[];
  };
}
