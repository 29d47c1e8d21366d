import { DEV_TOKEN } from "../runtime/common/dev-token.ts";
import { UserError } from "../runtime/common/errors.ts";
import type { Environments } from "./environments.ts";

/** The front door that the local installer opens unless told another port. */
export const LOCAL_AGENTS_HOST = "http://localhost:8088";

/** Where calls go, and as whom. */
export interface Connection {
  agentsHost: URL;
  token: string;
}

/** What the command line and the process say about where to go. */
export interface Wishes {
  /** Name of an environment, in place of the selected one. */
  environment: string | undefined;
  /** A front door, in place of the environment's. */
  agentsHost: string | undefined;
  /** `AGENTCTL_TOKEN`. */
  token: string | undefined;
}

/**
 * Finds the front door and the token for it: `AGENTCTL_TOKEN`, else the environment's token if the
 * door is the environment's own, else the development token if the door is on this machine.
 *
 * @throws UserError where either is not known.
 */
export function connectionOf(wishes: Wishes, environments: Environments): Connection {
  const environment = chosen(wishes, environments);
  const own = environment && agentsHostOf(environment);
  const named = wishes.agentsHost ?? own;
  if (named === undefined) {
    throw new UserError(
      "no_agents_host",
      `The address of the agents is not known for context ${environment?.kubeContext}.`,
      "Give it to the command or to the environment: --agents-host URL.",
    );
  }
  const agentsHost = new URL(named);
  // An environment's token is for its own front door: never sent to another one.
  const isOwn = own !== undefined && new URL(own).origin === agentsHost.origin;
  const token =
    wishes.token ??
    (isOwn ? environment?.token : undefined) ??
    (isLoopback(agentsHost) ? DEV_TOKEN : undefined);
  if (token === undefined) {
    throw new UserError(
      "no_token",
      `There is no token for ${agentsHost.origin}.`,
      "Set AGENTCTL_TOKEN, or keep one in the environment: agentctl env add … --token - --replace.",
    );
  }
  return { agentsHost, token };
}

/** The front door of an environment: its own, or the local one of a kind cluster. */
export function agentsHostOf(environment: {
  agentsHost?: string | undefined;
  kubeContext: string;
}): string | undefined {
  if (environment.agentsHost !== undefined) return environment.agentsHost;
  return environment.kubeContext.startsWith("kind-") ? LOCAL_AGENTS_HOST : undefined;
}

/** True for names and addresses of this machine alone. */
export function isLoopback({ hostname }: URL): boolean {
  return /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname);
}

function chosen(wishes: Wishes, { current, all }: Environments) {
  const name = wishes.environment ?? current;
  if (name === undefined && wishes.agentsHost !== undefined) return undefined;
  const environment = name === undefined ? undefined : all.get(name);
  if (environment !== undefined) return environment;
  throw new UserError(
    "no_environment",
    name === undefined ? "No environment is selected." : `There is no environment ${name}.`,
    all.size === 0
      ? "Add one: agentctl env add local --kube-context kind-platform --namespace default"
      : `Select one: agentctl env use ${[...all.keys()].join("|")}`,
  );
}
