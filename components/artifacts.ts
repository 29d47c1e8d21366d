/*
 * Everything that comes from elsewhere, pinned. `platform:images` and `platform:artifacts` replace
 * single entries, e.g. by a mirror's references or local files: an air-gapped installation.
 */

/** The release of kind that our configuration of it and the node's image are for. */
export const KIND_RELEASE = "v0.31.0";

/** Third-party images, by the names that `platform:images` knows. */
export const IMAGES = {
  /** The node of {@link KIND_RELEASE}. */
  node: "kindest/node:v1.34.3@sha256:08497ee19eace7b4b5348db5c6a1591d7752b164530a36f855cb0f2bdcbadd48",
  /** What our own images are built on. */
  base: "node:24.15.0-trixie-slim@sha256:291be77873bc04731968cacf82f0fcef17cee8cf200c6b6951e2bcab41560eb7",
  postgres: "postgres:17.6@sha256:00bc86618629af00d2937fdc5a5d63db3ff8450acf52f0636ec813c7f4902929",
  valkey:
    "valkey/valkey:8.1.3@sha256:fea8b3e67b15729d4bb70589eb03367bab9ad1ee89c876f54327fc7c6e618571",
  phoenix:
    "arizephoenix/phoenix:20.19.0@sha256:d240d8d4e364ee3483ed2de41ec12b760cc90bb0d4c6e2f190388772aba6fe1f",
} as const;

export type ImageName = keyof typeof IMAGES;

/** A file to fetch: URL or path, and the checksum it must have. */
export interface Artifact {
  location: string;
  checksum: string;
}

export type ArtifactName = "gvisor" | "gatewayApi";

const GVISOR_RELEASE = "20260810";
const GVISOR_SHA512: Partial<Record<NodeJS.Architecture, [string, string]>> = {
  x64: [
    "x86_64",
    "3de91138cda15682c11807387f6ecad9e7c8932262018a2813277e1b4efa03efe33b0a948e148c6b1ccfe7345bfab5d5e0d072519505465751273898bae19c62",
  ],
  arm64: [
    "aarch64",
    "dc21bdc7a4f52d049f4da74a337fc7437b2ac1465c7479816a852120a8cff5292d72ae78bc4c581f857836bc9a56a1ba18ad687e6bef13d03fdd670d6f2071f7",
  ],
};

/**
 * The files of an installation on a machine of this architecture.
 * gVisor has a release a processor: on others one must be named in `platform:artifacts`.
 */
export function artifacts(
  architecture: NodeJS.Architecture,
): Partial<Record<ArtifactName, Artifact>> {
  const gvisor = GVISOR_SHA512[architecture];
  return {
    ...(gvisor && {
      gvisor: {
        location: `https://storage.googleapis.com/gvisor/releases/release/${GVISOR_RELEASE}/${gvisor[0]}/gvisor.tar.bz2`,
        checksum: gvisor[1],
      },
    }),
    gatewayApi: {
      location:
        "https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.4.1/standard-install.yaml",
      checksum: "0947e75284b6cfae0bf1ac98716fea92ce5ef23bf0a479f8f0cd26f69ed53e52",
    },
  };
}
