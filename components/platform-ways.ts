import { UserError } from "../runtime/common/errors.ts";
import { configuredProviders } from "../runtime/model-gateway/providers/registry.ts";
import {
  addressOf,
  aroundKind,
  type EgressSettings,
  hostOf,
  internet,
  portOf,
  type Way,
  wayTo,
} from "./egress.ts";

/** The ports of name servers. */
export const DNS_PORTS: Way["ports"] = [
  { protocol: "UDP", port: 53 },
  { protocol: "TCP", port: 53 },
];

/** Ways out of the platform, by what is at their ends. */
export interface PlatformWays {
  /** Of an external database and cache. */
  database: Way[];
  cache: Way[];
  providers: Way[];
  oidc: Way[];
  /** In place of the pods `kube-dns`. */
  dns: Way | undefined;
  /** In place of any address at port 6443. */
  apiServer: Way | undefined;
}

/** As much of a stack's configuration as says where the platform has to get to. */
export interface Destinations {
  cluster: "kind" | "existing";
  providers: Record<string, string>;
  database?: { url: string; modelGatewayUrl: string } | undefined;
  cache?: { url: string } | undefined;
  oidc?: { jwksUri: string } | undefined;
  egress: EgressSettings;
}

/** A way that a stack's configuration leaves open. */
export interface Problem {
  path: string[];
  message: string;
}

const API_SERVER_PORT = 6443;
const EXAMPLE = 'for example {to: [{ipBlock: {cidr: "192.0.2.0/28"}}]}';

/** The ways out, and what is missing to know them all. */
export function platformWays(to: Destinations): { ways: PlatformWays; problems: Problem[] } {
  const { egress, database, cache } = to;
  const problems: Problem[] = [];
  const external = (name: "database" | "cache", urls: string[]): Way[] => {
    if (urls.length === 0) return [];
    const way = wayTo(urls, egress[name]);
    if (way !== undefined) return [way];
    problems.push({
      path: ["egress", name],
      message: `is needed where the URL of platform:${name} has a host name, since network policies know addresses only: say where it is, ${EXAMPLE}`,
    });
    return [];
  };
  const servers = (name: "providers" | "oidc", urls: string[]): Way[] => {
    const found = waysToServers(urls, to, egress[name]);
    if (found.unknown.length > 0) {
      problems.push({
        path: ["egress", name],
        message: `is needed for ${found.unknown.join(", ")}, which is on no public address: say where it is, ${EXAMPLE}`,
      });
    }
    return found.ways;
  };
  const urls = baseUrls(to.providers);
  if (!Array.isArray(urls)) problems.push(urls);
  const ways = {
    database: external("database", database ? [database.url, database.modelGatewayUrl] : []),
    cache: external("cache", cache ? [cache.url] : []),
    providers: servers("providers", Array.isArray(urls) ? urls : []),
    oidc: servers("oidc", to.oidc ? [to.oidc.jwksUri] : []),
    dns: egress.dns && { to: egress.dns.to, ports: egress.dns.ports ?? DNS_PORTS },
    apiServer: egress.apiServer && {
      to: egress.apiServer.to,
      ports: egress.apiServer.ports ?? [{ protocol: "TCP" as const, port: API_SERVER_PORT }],
    },
  };
  return { ways, problems };
}

/**
 * The ways to servers that may be anywhere. Addresses are let through as they are; names are taken to
 * be on the internet unless they can't be. What the setting names is let through besides.
 */
function waysToServers(
  urls: string[],
  { cluster, egress }: Destinations,
  setting: EgressSettings["providers"],
): { ways: Way[]; unknown: string[] } {
  // A rule without ports would open all of them.
  if (urls.length === 0) return { ways: [], unknown: [] };
  const byAddress = urls.filter((url) => addressOf(url) !== undefined);
  const names = urls.filter((url) => addressOf(url) === undefined);
  const hidden = names.filter((url) => isPrivateName(hostOf(url)));
  const published = names.filter((url) => !hidden.includes(url));
  const nearby =
    setting === undefined && cluster === "kind"
      ? hidden.filter((url) => !isInCluster(hostOf(url)))
      : [];
  const ways: Way[] = [
    ...byAddress.flatMap((url) => wayTo([url], undefined) ?? []),
    ...(published.length > 0 ? [internet(published.map(portOf), egress.except)] : []),
    ...(nearby.length > 0 ? [aroundKind(nearby.map(portOf))] : []),
    ...(setting === undefined ? [] : [wayTo(hidden.length > 0 ? hidden : urls, setting) ?? []]),
  ].flat();
  const unknown =
    setting === undefined ? hidden.filter((url) => !nearby.includes(url)).map(hostOf) : [];
  return { ways, unknown };
}

function isLoopback(host: string): boolean {
  return /^(.+\.)?localhost$|^127\.|^::1$/.test(host);
}

/** Names that no public name server knows. */
function isPrivateName(host: string): boolean {
  return isInCluster(host) || /\.(internal|local|localhost|lan|home\.arpa)$/.test(host);
}

function isInCluster(host: string): boolean {
  return !host.includes(".") || /\.svc(\.|$)|\.cluster\.local$/.test(host);
}

/** Where the configured providers are, or what is wrong with that. */
function baseUrls(providers: Record<string, string>): string[] | Problem {
  let urls: string[];
  try {
    urls = configuredProviders(providers).flatMap((provider) =>
      "baseUrl" in provider ? [provider.baseUrl] : [],
    );
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { path: ["providers"], message: error.message };
  }
  const own = urls.map(hostOf).filter(isLoopback);
  if (own.length === 0) return urls;
  return {
    path: ["providers"],
    message: `${own.join(", ")} would be the model gateway's own pod: name this machine as containers reach it, host.docker.internal with Docker Desktop, on Linux the address of Docker's bridge (172.17.0.1)`,
  };
}
