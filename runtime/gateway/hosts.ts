import { z } from "zod";
import { HttpError } from "../common/errors.ts";

/** The host names of the one port, lower-case and without a port. */
export const hostNames = z.object({
  agents: z.string().toLowerCase().default("agents.localhost"),
  models: z.string().toLowerCase().default("ai-gateway.localhost"),
  traces: z.string().toLowerCase().default("traces.localhost"),
  tools: z.string().toLowerCase().default("mcp.localhost"),
  console: z.string().toLowerCase().default("console.localhost"),
});

export type HostNames = z.infer<typeof hostNames>;

/** An origin of web pages as browsers write it: scheme, host, port if it is no standard one. */
export const pageOrigin = z.string().refine((text) => URL.parse(text)?.origin === text, {
  message: "must be an origin like https://studio.example, with nothing after the host",
});

/** What stands behind the port. */
export type Door = "agents" | "models" | "tools" | "console" | "traces";

/** The machine itself: all doors are open here, told apart by path, so no hosts file is needed. */
const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);
const CONSOLE_PATH = /^\/(?:$|(?:traces|assets)(?:\/|$)|sign-in$|sign-out$)/;
const MODELS_PATH = /^\/v1(?:\/|$)/;

/**
 * Finds the door that a request is for.
 *
 * A host that isn't ours is refused: a page that points its own name at this machine (DNS
 * rebinding) gets nothing. A route may name more hosts for agents, but none that is another door's.
 *
 * @param isAgentsHost Whether a route names this host.
 * @returns a function of the request's absolute URL and its path alone. It throws HttpError 421 that
 *   names the hosts.
 */
export function createDoorkeeper(
  names: HostNames,
  isAgentsHost: (host: string) => boolean,
): (url: string, path: string) => Door {
  const doors = new Map<string, Door>();
  for (const door of ["console", "tools", "traces", "models", "agents"] as const) {
    doors.set(names[door], door);
  }
  const hosts = [...doors.keys(), ...LOOPBACK];
  return (url, path) => {
    const host = hostOf(url);
    const door = doors.get(host);
    if (door !== undefined) return door;
    if (!LOOPBACK.has(host)) {
      if (isAgentsHost(host)) return "agents";
      throw new HttpError(
        421,
        "misdirected_request",
        `This server does not answer for the host ${host}. Use one of: ${hosts.join(", ")}.`,
        { details: { hosts } },
      );
    }
    if (MODELS_PATH.test(path)) return "models";
    return CONSOLE_PATH.test(path) ? "console" : "agents";
  };
}

/**
 * A request with several hosts may be meant for one by us and for another by a proxy before us.
 *
 * @param rawHeaders `IncomingMessage.rawHeaders`: Node itself goes by the first of them.
 * @throws HttpError 400 (RFC 9112, 3.2).
 */
export function refuseSeveralHosts(rawHeaders: readonly string[]): void {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() === "host") hosts += 1;
  }
  if (hosts > 1)
    throw new HttpError(400, "bad_request", "The header Host was sent more than once.");
}

/** The host name under which routes are looked up: on the machine itself, that of the agents. */
export function routingHost(url: string, names: HostNames): string {
  const host = hostOf(url);
  return LOOPBACK.has(host) ? names.agents : host;
}

/** The host of an absolute URL without its port. Cheaper than `new URL`, on every call's way. */
function hostOf(url: string): string {
  const start = url.indexOf("//") + 2;
  const end = url.indexOf("/", start);
  const authority = end === -1 ? url.slice(start) : url.slice(start, end);
  return authority.replace(/:\d*$/, "").toLowerCase();
}

/** Path and query of an absolute URL, as the server has normalised them. */
export function pathAndQuery(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  return start === -1 ? "/" : url.slice(start);
}

/**
 * Where agents, models and traces answer, for someone who reached us by `url`: the same address on the
 * machine itself, else the host names of their own.
 */
export function serviceUrls(url: string, https: boolean, names: HostNames) {
  const { hostname, port, host } = new URL(url);
  const scheme = https ? "https" : "http";
  const at = (name: string) => `${scheme}://${name}${port === "" ? "" : `:${port}`}`;
  const traces = at(names.traces);
  if (LOOPBACK.has(hostname)) {
    return { agents: `${scheme}://${host}`, models: `${scheme}://${host}`, traces };
  }
  return { agents: at(names.agents), models: at(names.models), traces };
}
