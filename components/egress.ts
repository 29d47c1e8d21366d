import { isIP } from "node:net";
import { z } from "zod";

const port = z.union([z.number().int().min(1).max(65_535), z.string()]);
const labelSelector = z.strictObject({ matchLabels: z.record(z.string(), z.string()) });
const cidr = z
  .string()
  .regex(/^[0-9A-Fa-f:.]+\/[0-9]{1,3}$/, "is no range of addresses such as 192.0.2.0/28");
const peer = z
  .strictObject({
    ipBlock: z.strictObject({ cidr, except: z.array(cidr).optional() }).optional(),
    namespaceSelector: labelSelector.optional(),
    podSelector: labelSelector.optional(),
  })
  .refine(
    ({ ipBlock, namespaceSelector, podSelector }) =>
      (ipBlock !== undefined) !== (namespaceSelector !== undefined || podSelector !== undefined),
    "names either an ipBlock or pods, by a namespaceSelector, a podSelector or both",
  );

/** One egress rule, as Kubernetes writes it in a NetworkPolicy. */
const egressRule = z.strictObject({
  to: z.array(peer).min(1),
  /** Without them: the ports that the URLs in question name. */
  ports: z
    .array(z.strictObject({ protocol: z.enum(["TCP", "UDP"]).default("TCP"), port }))
    .min(1)
    .optional(),
});

/** Ways out of the platform that its URLs don't tell by themselves (`platform:egress`). */
export const egressSettings = z.strictObject({
  database: egressRule.optional(),
  cache: egressRule.optional(),
  /** Model providers on private addresses, beside those on the internet. */
  providers: egressRule.optional(),
  /** An issuer of tokens on a private address, in place of one on the internet. */
  oidc: egressRule.optional(),
  /** Where names are asked for, in place of the pods `kube-dns`. Without ports: 53. */
  dns: egressRule
    .refine(({ ports }) => ports?.some(({ protocol }) => protocol === "UDP") ?? true, {
      path: ["ports"],
      message: "have no {protocol: UDP}, by which nearly all names are asked for",
    })
    .optional(),
  /** Where the API server does not listen on port 6443. */
  apiServer: egressRule.optional(),
  /** Public addresses that are not the internet, e.g. of the cluster's pods. */
  except: z.array(cidr).default([]),
});

export type EgressSettings = z.output<typeof egressSettings>;
export type Peer = z.output<typeof peer>;

/** A way out: to whom, and by which ports. */
export interface Way {
  to: Peer[];
  ports: { protocol: "TCP" | "UDP"; port: number | string }[];
}

/**
 * What is not the internet: private, shared (RFC 6598), loopback and link-local addresses, the last
 * with the cloud's credentials at 169.254.169.254. Pods and Services of most clusters are in these.
 */
const NOT_INTERNET = [
  ...["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"],
  ...["127.0.0.0/8", "169.254.0.0/16", "fc00::/7", "fe80::/10", "::1/128"],
];
/** kind's own ranges of pods and Services. */
const KIND_RANGES = ["10.244.0.0/16", "10.96.0.0/16"];
const LINK_LOCAL = ["169.254.0.0/16"];

const DEFAULT_PORTS: Record<string, number> = {
  "postgres:": 5432,
  "postgresql:": 5432,
  "redis:": 6379,
  "rediss:": 6379,
  "http:": 80,
  "https:": 443,
};

/** The whole internet, by these ports. */
export function internet(ports: number[], except: string[]): Way {
  const excluded = [...NOT_INTERNET, ...except];
  const block = (cidr: string, isOfFamily: (range: string) => boolean): Peer => ({
    ipBlock: { cidr, except: excluded.filter(isOfFamily) },
  });
  const isIpv6 = (range: string) => range.includes(":");
  return {
    to: [block("0.0.0.0/0", (range) => !isIpv6(range)), block("::/0", isIpv6)],
    ports: tcp(ports),
  };
}

/** What is around a kind cluster, by these ports: its machine and that one's network, no pods. */
export function aroundKind(ports: number[]): Way {
  const except = [...KIND_RANGES, ...LINK_LOCAL];
  return { to: [{ ipBlock: { cidr: "0.0.0.0/0", except } }], ports: tcp(ports) };
}

/**
 * The way to servers by their URLs: as the setting has it, else to the addresses in the URLs.
 * Undefined where a URL has a name, as network policies know none.
 */
export function wayTo(urls: string[], setting: EgressSettings["database"]): Way | undefined {
  const ports = tcp(urls.map(portOf));
  if (setting !== undefined) return { to: setting.to, ports: setting.ports ?? ports };
  const to = urls.map(addressOf);
  return to.every((each) => each !== undefined) ? { to, ports } : undefined;
}

/** The peer that a URL's host is, where that is an address. */
export function addressOf(url: string): Peer | undefined {
  const host = hostOf(url);
  const version = isIP(host);
  return version === 0 ? undefined : { ipBlock: { cidr: `${host}/${version === 4 ? 32 : 128}` } };
}

/** A URL's host; without the brackets of an IPv6 address. */
export function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[(.*)\]$/, "$1");
}

/** @throws Error for a scheme without a port of its own. */
export function portOf(url: string): number {
  const { port, protocol } = new URL(url);
  const found = port === "" ? DEFAULT_PORTS[protocol] : Number(port);
  if (found === undefined) throw new Error(`A URL of ${protocol} has to name its port.`);
  return found;
}

function tcp(ports: number[]): Way["ports"] {
  return [...new Set(ports)]
    .sort((a, b) => a - b)
    .map((port) => ({ protocol: "TCP" as const, port }));
}
